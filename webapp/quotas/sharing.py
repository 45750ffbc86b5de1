"""Fair shares: what each team deserves, holds, borrows and lends, now and in the last month."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db import transaction

from platform_core.cluster.snapshot import TeamShare
from platform_core.quotas.shares import Claim, Share, shares
from platform_core.units import DAY_MS, HOUR_MS
from webapp.base.identity import now_ms
from webapp.nodes import queries as nodes
from webapp.quotas import queries, tree
from webapp.quotas.models import ShareSample
from webapp.quotas.tree import Tree

KEPT_MS = 31 * DAY_MS
AT_LEAST_EVERY_MS = HOUR_MS  # a row that is older than that says nothing: the platform was away
_FIGURES = ("weight", "guaranteed", "deserved", "held", "borrowed", "lent", "usage_share")


@dataclass(frozen=True, slots=True)
class Branch:
    """The position of a team or a department in the tree of departments."""

    way: tuple[str, ...]  # the departments above it from the top down, and itself
    weight: float  # among its siblings
    part: float  # of what is shared by weight
    usage_share: float  # its use over its part, both among its siblings


@dataclass(frozen=True, slots=True)
class Standing:
    """One team and one GPU type at this moment."""

    quota: TeamShare
    share: Share
    recent_gpu_ms: int
    branch: Branch


@dataclass(frozen=True, slots=True)
class Standings:
    """Every team with a quota of one GPU type, by name, and the departments above them."""

    teams: tuple[Standing, ...]
    departments: Mapping[str, Branch]
    names: Mapping[str, str]


def standings(at_ms: int) -> dict[str, Standings]:
    """GPU type → the teams that share it."""
    capacity, recent, whole = nodes.slots_by_type(), queries.recent_use(at_ms), tree.load()
    by_type: dict[str, list[TeamShare]] = defaultdict(list)
    for quota in queries.team_shares(at_ms, whole):
        by_type[quota.gpu_type].append(quota)
    standings_by_type: dict[str, Standings] = {}
    for gpu_type, quotas in sorted(by_type.items()):
        used = {quota.team: recent.get((quota.team, gpu_type), 0.0) for quota in quotas}
        branches = _branches(whole, used)
        teams = tuple(
            Standing(quota, share, round(used[quota.team]), branches.pop(quota.team))
            for quota, share in zip(quotas, _shares(capacity.get(gpu_type, 0), quotas, whole), strict=True)
        )
        standings_by_type[gpu_type] = Standings(teams, branches, whole.names)
    return standings_by_type


def _shares(capacity: int, quotas: Sequence[TeamShare], whole: Tree) -> tuple[Share, ...]:
    claims = [
        Claim(quota.team, quota.guaranteed, quota.maximum, place.weight, quota.used, place.department)
        for quota, place in [(quota, whole.teams[quota.team]) for quota in quotas]
    ]
    return shares(capacity, claims, whole.departments)


def _branches(whole: Tree, used: Mapping[str, float]) -> dict[str, Branch]:
    hierarchy = whole.of(used)
    among, parts = hierarchy.shares_among_siblings(used), dict.fromkeys(whole.departments, 0.0)
    ways: dict[str, tuple[str, ...]] = {}
    for team, part in hierarchy.fractions().items():
        for place, name in enumerate(hierarchy.ways[team], start=1):
            ways[name] = hierarchy.ways[team][:place]
            parts[name] = parts.get(name, 0.0) + part
    places = {**whole.departments, **whole.teams}
    return {name: Branch(way, places[name].weight, parts[name], among[name]) for name, way in ways.items()}


def sample() -> None:
    """Records the share of each team that has changed, and deletes samples older than a month."""
    now = now_ms()
    wanted = [_row(standing, now) for of_type in standings(now).values() for standing in of_type.teams]
    newest = ShareSample.objects.order_by("team_id", "gpu_type", "-at_ms").distinct("team_id", "gpu_type")
    known = {
        (row.team_id, row.gpu_type): _figures(row)
        for row in newest.filter(at_ms__gt=now - AT_LEAST_EVERY_MS + 1)
    }
    with transaction.atomic():
        ShareSample.objects.bulk_create(
            [row for row in wanted if known.get((row.team_id, row.gpu_type)) != _figures(row)],
            ignore_conflicts=True,
        )
        ShareSample.objects.filter(at_ms__lt=now - KEPT_MS).delete()


def _row(standing: Standing, at_ms: int) -> ShareSample:
    quota, share = standing.quota, standing.share
    return ShareSample(
        at_ms=at_ms, team_id=quota.team, gpu_type=quota.gpu_type, weight=round(quota.weight, 3),
        guaranteed=quota.guaranteed, deserved=share.deserved, held=quota.used, borrowed=share.borrowed,
        lent=share.lent, usage_share=round(quota.usage_share, 2),
    )  # fmt: skip


def _figures(row: ShareSample) -> tuple[float, ...]:
    return tuple(getattr(row, name) for name in _FIGURES)


def history(team: str, gpu_type: str, from_ms: int, to_ms: int, points: int) -> dict[str, list[float | None]]:
    """Returns at_ms and each figure at no more than `points` moments; None while the platform was down.

    A row is valid until the next one, so the first may come from before the period.
    """
    rows = list(
        ShareSample.objects.filter(
            team=team, gpu_type=gpu_type, at_ms__gt=from_ms - AT_LEAST_EVERY_MS, at_ms__lte=to_ms
        )
        .order_by("at_ms")
        .values_list("at_ms", *_FIGURES)
    )
    step = max(1, (to_ms - from_ms) // points)
    series: dict[str, list[float | None]] = {name: [] for name in ("at_ms", *_FIGURES)}
    place = -1
    for at_ms in range(from_ms, to_ms + 1, step):
        while place + 1 < len(rows) and rows[place + 1][0] <= at_ms:
            place += 1
        holds = place >= 0 and at_ms - rows[place][0] <= AT_LEAST_EVERY_MS + step
        if not holds and not series["at_ms"]:
            continue  # nothing was recorded yet
        series["at_ms"].append(at_ms)
        for position, name in enumerate(_FIGURES, start=1):
            series[name].append(rows[place][position] if holds else None)
    return series
