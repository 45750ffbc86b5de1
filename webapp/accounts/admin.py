"""Users and teams in Django admin. Changes made there are in the audit log, too."""

from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.db.models import Model
from django.http import HttpRequest

from webapp.accounts.models import ApiToken, Department, Membership, Team, TeamSecret, User
from webapp.events import services as events


class Audited(admin.ModelAdmin):
    """Writes an event for each addition, change and deletion, beside Django's own log."""

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        _record(request, obj, "Added")
        return super().log_addition(request, obj, message)

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        _record(request, obj, "Changed")
        return super().log_change(request, obj, message)

    def log_deletions(self, request: HttpRequest, queryset: Any) -> Any:
        for obj in queryset:
            _record(request, obj, "Deleted")
        return super().log_deletions(request, queryset)


def _record(request: HttpRequest, obj: Model, verb: str) -> None:
    name = type(obj).__name__
    team = getattr(obj, "team_id", None) or (obj.pk if isinstance(obj, Team) else "")
    events.record(
        f"{name}{verb}",
        f"{name.lower()}:{obj.pk}",
        actor=f"user:{request.user.get_username()}",
        cause="by an operator, in the admin",
        team=team,
        data={"name": str(obj)},
    )


class ReadOnly(admin.ModelAdmin):
    """Append-only rows, and rows that only services may change."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class MembershipInline(admin.TabularInline):
    model = Membership
    extra = 0


@admin.register(User)
class PersonAdmin(Audited, UserAdmin):
    inlines = (MembershipInline,)
    list_display = ("username", "email", "is_active", "is_superuser", "last_login")


@admin.register(Department)
class DepartmentAdmin(Audited):
    list_display = ("slug", "name", "parent", "weight")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """The slug is the key: another one would be another department."""
        return ("slug",) if obj else ()


@admin.register(Team)
class TeamAdmin(Audited):
    list_display = ("slug", "name", "department", "weight")
    inlines = (MembershipInline,)


@admin.register(ApiToken)
class ApiTokenAdmin(ReadOnly):
    list_display = (
        "name",
        "user",
        "scope",
        "team",
        "prefix",
        "created_ms",
        "expires_ms",
        "last_used_ms",
        "revoked_ms",
    )
    exclude = ("digest",)


@admin.register(TeamSecret)
class TeamSecretAdmin(ReadOnly):
    list_display = ("team", "name", "changed_by", "changed_ms")
    exclude = ("ciphertext",)
