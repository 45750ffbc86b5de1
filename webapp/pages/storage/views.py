"""The page of storage: what the teams have in the store, how it grows, and what nobody needs any more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST, require_safe

from platform_core.errors import TrainmasterError
from platform_core.storage.holdings import Split
from platform_core.units import DAY_MS, format_bytes, parse_bytes
from webapp.accounts import permissions
from webapp.accounts import queries as accounts
from webapp.accounts.queries import actor_of
from webapp.artifacts import queries as artifacts
from webapp.artifacts import services as artifact_services
from webapp.base.identity import now_ms
from webapp.pages import fragments
from webapp.storage import queries, retention, services
from webapp.storage.models import Damage, Leftover
from webapp.storage.queries import Scrub, Share, TeamStorage
from webapp.storage.retention import Policy

SHOWN_SHARES = 100


@dataclass(frozen=True, slots=True)
class TeamRow:
    storage: TeamStorage
    curve: tuple[float, ...]
    grows: int | None  # bytes a day, without its sign
    shrinks: bool
    used_percent: float


@dataclass(frozen=True, slots=True)
class ShareRow:
    share: Share
    part: float  # of all that is shown, 0..1


@dataclass(frozen=True, slots=True)
class LeftoverRow:
    leftover: Leftover
    in_days: int | None  # until it is deleted; None: it stays
    may_keep: bool


@dataclass(frozen=True, slots=True)
class StoragePage:
    """Query: by, one of `Split`, and team, both of the shares."""

    teams: tuple[TeamRow, ...]
    total: int
    by: str
    splits: tuple[str, ...]
    team: str  # whose shares alone are shown; "": of all
    shares: tuple[ShareRow, ...]
    more_shares: int
    leftovers: tuple[LeftoverRow, ...]
    leftover_bytes: int
    grace_days: int
    scrub: Scrub
    damages: tuple[Damage, ...]  # first those that are not mended
    retention: tuple[Policy, ...]  # to operators
    limited: tuple[str, ...]  # teams whose limits the reader may change
    kinds: tuple[str, ...]
    cold: bool  # whether there is a cold store
    cold_days: int


@login_required
@require_safe
def storage(request: HttpRequest) -> HttpResponse:
    actor, by, team = actor_of(request), request.GET.get("by", ""), request.GET.get("team", "")
    by = by if by in list(Split) else Split.PROJECT.value
    teams = queries.teams(actor.sees)
    shares = queries.shares(actor.sees, Split(by), team)
    leftovers = queries.leftovers(actor.sees)
    page = StoragePage(
        teams=tuple(map(_row, teams)),
        total=sum(one.bytes for one in teams),
        by=by,
        splits=tuple(Split),
        team=team,
        shares=_share_rows(shares),
        more_shares=max(0, len(shares) - SHOWN_SHARES),
        leftovers=tuple(
            LeftoverRow(row, _in_days(row), permissions.may(actor, "storage.keep", row.team_id))
            for row in leftovers
        ),
        leftover_bytes=sum(row.bytes for row in leftovers),
        grace_days=settings.LEFTOVER_GRACE_DAYS,
        scrub=queries.scrub(),
        damages=tuple(queries.damages(actor.sees)),
        retention=tuple(retention.policies()) if permissions.may(actor, "platform.manage") else (),
        limited=tuple(
            one.slug
            for one in accounts.teams(actor.sees)
            if permissions.may(actor, "storage.limit", one.slug)
        ),
        kinds=artifacts.LIMITED_KINDS,
        cold=bool(settings.COLD_STORE_URL),
        cold_days=settings.COLD_AFTER_DAYS,
    )
    return fragments.render(request, "storage/storage.html", page)


def _share_rows(shares: Sequence[Share]) -> tuple[ShareRow, ...]:
    whole = sum(one.bytes for one in shares) or 1
    return tuple(ShareRow(one, one.bytes / whole) for one in shares[:SHOWN_SHARES])


def _in_days(row: Leftover) -> int | None:
    goes_ms = queries.goes_ms(row)
    return None if goes_ms is None else max(0, -(-(goes_ms - now_ms()) // DAY_MS))


def _row(one: TeamStorage) -> TeamRow:
    growth = one.growth
    return TeamRow(
        one,
        tuple(float(day.bytes) for day in one.days),
        None if growth is None else round(abs(growth)),
        growth is not None and growth < 0,
        100 * one.uploaded / one.limit,
    )


@login_required
@require_POST
def keep(request: HttpRequest, leftover_id: int) -> HttpResponse:
    row = services.keep(actor_of(request), leftover_id, "kept" in request.POST)
    messages.success(request, f"{row.name} is kept." if row.kept_by else f"{row.name} is not kept any more.")
    return redirect("storage:storage")


@login_required
@require_POST
def limit(request: HttpRequest) -> HttpResponse:
    """An empty size takes the limit away; the kind "budget" has dollars a month instead of a size."""
    actor, team, kind = actor_of(request), request.POST.get("team", ""), request.POST.get("kind", "")
    text = request.POST.get("size", "").strip()
    try:
        if kind == "budget":
            services.set_budget(actor, team, _micro_dollars(text) if text else None)
            messages.success(request, f"Budget of {team}: {f'${text} a month' if text else 'none'}.")
        else:
            size = _bytes(text) if text else None
            artifact_services.set_limit(actor, team, kind, size)
            said = "none of its own" if size is None else format_bytes(size)
            messages.success(request, f"Limit of {team} for {kind}: {said}.")
    except TrainmasterError as error:
        if error.code != "request_invalid":
            raise
        messages.error(request, f"{error.sentence}.")
    return redirect("storage:storage")


def _bytes(text: str) -> int:
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise TrainmasterError("request_invalid", what="the size", why=error) from error


def _micro_dollars(text: str) -> int:
    try:
        dollars = float(text.removeprefix("$"))
    except ValueError:
        dollars = -1.0
    if not 0 <= dollars <= 1e9:
        raise TrainmasterError(
            "request_invalid", what="the budget", why=f"{text!r} is not an amount in dollars"
        )
    return round(dollars * 1e6)
