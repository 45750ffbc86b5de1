"""Signing in and out, a first password, and the settings of a person."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings as platform
from django.contrib import messages
from django.contrib.auth import login as begin_session
from django.contrib.auth import logout as end_session
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.decorators import login_required
from django.contrib.auth.forms import PasswordChangeForm, SetPasswordForm
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, resolve_url
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from platform_core.errors import TrainmasterError
from webapp.accounts import origin, permissions, queries, services, tokens, users
from webapp.accounts.models import Scope
from webapp.accounts.queries import TokenView
from webapp.base.identity import now_ms
from webapp.pages import fragments
from webapp.pages.accounts.forms import (
    LoginForm,
    MailForm,
    ProfileForm,
    TokenForm,
    problems,
)
from webapp.sockets import services as sockets


@dataclass(frozen=True, slots=True)
class TeamRole:
    slug: str
    name: str
    role: str


@dataclass(frozen=True, slots=True)
class TokenRow:
    token: TokenView
    state: str  # active or expired


@dataclass(frozen=True, slots=True)
class SettingsPage:
    profile: Mapping[str, str]
    mail: Mapping[str, Any]  # what the person wants to get
    mail_server: bool  # whether the platform can send any
    teams: tuple[TeamRole, ...]
    tokens: tuple[TokenRow, ...]
    may_make_admin_tokens: bool
    new_token: str  # shown this once, or ""
    problems: Mapping[str, str]
    values: Mapping[str, Any]  # of the refused form
    opened: str  # the form that was refused: profile, password, token or ""


@dataclass(frozen=True, slots=True)
class LoginPage:
    form: LoginForm
    next: str


@dataclass(frozen=True, slots=True)
class SetPasswordPage:
    username: str = ""  # "": the link is not valid
    problems: Mapping[str, str] = field(default_factory=dict)


@never_cache
@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
def login(request: HttpRequest) -> HttpResponse:
    onward = _safe_next(request)
    if request.user.is_authenticated:
        return redirect(onward or resolve_url("overview:home"))
    form = LoginForm(request.POST or None)
    status = 200
    if request.method == "POST" and form.is_valid():
        try:
            user = services.check_login(request, form.cleaned_data["username"], form.cleaned_data["password"])
        except TrainmasterError as error:
            form.add_error(None, error.sentence)
            status = error.kind.http
        else:
            if user is not None:
                begin_session(request, user)
                response = redirect(onward or resolve_url("overview:home"))
                origin.remember_device(response, user.username)
                return response
            form.add_error(None, "No account has this username and password. Passwords are case-sensitive.")
            status = 422
    return fragments.render(request, "accounts/login.html", LoginPage(form, onward), status=status)


def _safe_next(request: HttpRequest) -> str:
    onward = request.POST.get("next") or request.GET.get("next") or ""
    safe = url_has_allowed_host_and_scheme(onward, {request.get_host()}, require_https=request.is_secure())
    return onward if safe else ""


@login_required
@require_safe
def admin_login(request: HttpRequest) -> HttpResponse:
    """The operators' admin has no login of its own: there is one place to guess, and it counts."""
    permissions.require(queries.actor_of(request), "platform.manage")
    return redirect(_safe_next(request) or "admin:index")


@never_cache
@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
def set_password(request: HttpRequest, uid: str, token: str) -> HttpResponse:
    """The page behind the link that a platform admin hands out."""
    user = users.invited(uid, token)
    if user is None:
        return fragments.render(request, "accounts/set_password.html", SetPasswordPage(), status=404)
    form = SetPasswordForm(user, request.POST or None)
    if request.method == "POST" and form.is_valid():
        users.accept(uid, token, form.cleaned_data["new_password1"])
        end_session(request)
        messages.success(request, "Password set. Sign in with it.")
        return redirect("accounts:login")
    page = SetPasswordPage(user.username, problems(form))
    return fragments.render(request, "accounts/set_password.html", page, status=422 if form.errors else 200)


@require_POST
def logout(request: HttpRequest) -> HttpResponse:
    person = request.user.pk
    end_session(request)
    sockets.publish(f"person:{person}")
    return redirect("accounts:login")


@never_cache
@login_required
@require_safe
def settings(request: HttpRequest) -> HttpResponse:
    return _settings(request)


def _settings(
    request: HttpRequest,
    *,
    new_token: str = "",
    refused: Mapping[str, str] | None = None,
    opened: str = "",
    status: int = 200,
) -> HttpResponse:
    actor = queries.actor_of(request)
    user = queries.user(actor.username)
    teams = queries.teams(None if actor.is_admin else actor.teams)
    now = now_ms()
    page = SettingsPage(
        profile={name: getattr(user, name) for name in ("username", "first_name", "last_name", "email")},
        mail=MailForm(instance=user).initial,
        mail_server=bool(platform.MAIL_URL),
        teams=tuple(
            TeamRole(team.slug, team.name, str(actor.roles.get(team.slug, "admin"))) for team in teams
        ),
        tokens=tuple(
            TokenRow(token, "active" if token.expires_ms > now else "expired")
            for token in queries.tokens(actor.username)
        ),
        may_make_admin_tokens=permissions.may(actor, "token.create_admin"),
        new_token=new_token,
        problems=dict(refused or {}),
        values=request.POST,
        opened=opened,
    )
    return fragments.render(request, "accounts/settings.html", page, status=status)


@login_required
@require_POST
def profile(request: HttpRequest) -> HttpResponse:
    form = ProfileForm(request.POST)
    if not form.is_valid():
        return _settings(request, refused=problems(form), opened="profile", status=422)
    services.change_profile(queries.actor_of(request), **form.cleaned_data)
    messages.success(request, "Profile saved.")
    return redirect("accounts:settings")


@login_required
@require_POST
def mail(request: HttpRequest) -> HttpResponse:
    form = MailForm(request.POST)
    form.full_clean()  # a box that is not ticked is not sent: nothing can be wrong with it
    services.choose_mail(queries.actor_of(request), **form.cleaned_data)
    messages.success(request, "Your choice of mail is saved.")
    return redirect("accounts:settings")


@sensitive_post_parameters()
@login_required
@require_POST
def password(request: HttpRequest) -> HttpResponse:
    actor = queries.actor_of(request)
    form = PasswordChangeForm(queries.user(actor.username), request.POST)
    try:
        services.check_password(actor, request.POST.get("old_password", ""))
    except TrainmasterError as error:
        return _settings(
            request, refused={"old_password": error.sentence}, opened="password", status=error.kind.http
        )
    if not form.is_valid():
        return _settings(request, refused=problems(form), opened="password", status=422)
    user = services.change_password(actor, actor.username, form.cleaned_data["new_password1"])
    update_session_auth_hash(request, user)
    messages.success(request, "Password changed. Your other sessions have ended.")
    return redirect("accounts:settings")


@never_cache
@login_required
@require_POST
def token_create(request: HttpRequest) -> HttpResponse:
    """Answers with the page itself, not a redirect: the token's text is shown this once and kept nowhere."""
    form = TokenForm(request.POST)
    if not form.is_valid():
        return _settings(request, refused=problems(form), opened="token", status=422)
    actor, name, days = queries.actor_of(request), form.cleaned_data["name"], form.cleaned_data["days"]
    if form.cleaned_data["scope"] == Scope.ADMIN:
        made = tokens.create_admin_token(actor, name, days)
    else:
        made = tokens.create_token(actor, form.cleaned_data["team"], name, days)
    return _settings(request, new_token=made.text)


@login_required
@require_POST
def token_revoke(request: HttpRequest, token_id: int) -> HttpResponse:
    tokens.revoke_token(queries.actor_of(request), token_id)
    messages.success(request, "Token revoked.")
    return redirect("accounts:settings")
