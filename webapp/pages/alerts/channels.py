"""Channels: where notices go, how the newest went, and the form to add one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods, require_POST

from platform_core.alerting.rules import Severity
from platform_core.errors import TrainmasterError
from webapp.accounts.permissions import may
from webapp.accounts.queries import actor_of
from webapp.alerts import queries, services
from webapp.alerts.models import Channel, Notice
from webapp.pages import fragments
from webapp.pages.alerts.views import teams_for


@dataclass(frozen=True, slots=True)
class ChannelLine:
    channel: Channel
    newest: Notice | None
    may_edit: bool


@dataclass(frozen=True, slots=True)
class ChannelPage:
    """Fragment: list."""

    lines: Sequence[ChannelLine]
    teams: Sequence[str]  # for which the reader may add one; "" is the platform
    kinds: Sequence[tuple[str, str]]
    severities: Sequence[str]
    values: Mapping[str, str]
    problems: Mapping[str, str]


_KINDS = (
    ("mail", "Mail"),
    ("slack", "Slack or compatible"),
    ("pagerduty", "PagerDuty or compatible"),
    ("webhook", "Webhook, signed"),
)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def channels(request: HttpRequest) -> HttpResponse:
    actor, form = actor_of(request), request.POST.dict()
    problems: dict[str, str] = {}
    if request.method == "POST":
        try:
            services.add_channel(
                actor, form.get("team", ""), form.get("name", ""), form.get("kind", ""), form.get("address", ""),
                key=form.get("key", ""), least=form.get("least", ""), every_team="every_team" in form,
            )  # fmt: skip
        except TrainmasterError as error:
            if error.code not in ("request_invalid", "duplicate_name"):
                raise
            problems = {"channel": error.sentence}
        else:
            messages.success(request, "The channel is added. Send a test to see whether it works.")
            return redirect("alerts:channels")
    rows = queries.channels(actor)
    newest = queries.newest_notices(rows)
    page = ChannelPage(
        lines=[
            ChannelLine(
                row,
                newest.get(row.pk),
                may(actor, "alert.configure", row.team_id) if row.team_id else actor.is_admin,
            )
            for row in rows
        ],
        teams=teams_for(actor, "alert.configure"),
        kinds=_KINDS,
        severities=list(Severity),
        values={name: value for name, value in form.items() if name != "key"},
        problems=problems,
    )
    return fragments.render(request, "alerts/channels.html", page, status=422 if problems else 200)


@login_required
@require_POST
def test(request: HttpRequest, channel_id: int) -> HttpResponse:
    services.send_test(actor_of(request), channel_id)
    messages.success(request, "A test is on its way; how it went stands beside the channel in a moment.")
    return redirect("alerts:channels")


@login_required
@require_POST
def delete(request: HttpRequest, channel_id: int) -> HttpResponse:
    services.delete_channel(actor_of(request), channel_id)
    messages.success(request, "The channel is deleted.")
    return redirect("alerts:channels")
