"""What operators set for deployments of a team."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from platform_core.units import format_bytes
from webapp.accounts.admin import Audited
from webapp.deployments.models import TeamCap, Worker
from webapp.nodes import services as clusters


@admin.register(TeamCap)
class TeamCapAdmin(Audited):
    list_display = ("team", "rate")

    @admin.display(description="in, and out, at each node", ordering="bytes_per_second")
    def rate(self, cap: TeamCap) -> str:
        return f"{format_bytes(cap.bytes_per_second)}/s"

    def get_form(
        self, request: HttpRequest, obj: TeamCap | None = None, change: bool = False, **kwargs: Any
    ) -> Any:
        help_text = "All its deployments together, in, and out, at each node. 100 MiB a second are 104857600."
        return super().get_form(request, obj, change, help_texts={"bytes_per_second": help_text}, **kwargs)

    def save_model(self, request: HttpRequest, obj: TeamCap, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        _tell_nodes(obj)

    def delete_model(self, request: HttpRequest, obj: TeamCap) -> None:
        super().delete_model(request, obj)
        _tell_nodes(obj)


def _tell_nodes(cap: TeamCap) -> None:
    busy = Worker.objects.filter(deployment__team=cap.team_id, state__in=["idle", "receiving"])
    clusters.touch(list(busy.values_list("node_id", flat=True).distinct()))
