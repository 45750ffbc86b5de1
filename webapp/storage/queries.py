from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.conf import settings
from django.db.models import F, Sum, Value

from platform_core.node.wanted import MendWanted
from platform_core.storage.growth import Day, days_left, per_day
from platform_core.storage.holdings import Split
from platform_core.storage.price import monthly
from platform_core.storage.scrub import is_late
from platform_core.units import DAY_MS
from webapp.artifacts import queries as artifacts
from webapp.base.identity import now_ms
from webapp.storage.models import Damage, Leftover, StorageBudget, StoredDay, StoredShare

TREND_DAYS = 28
SHOWN_LEFTOVERS = 200
SHOWN_DAMAGES = 200
UPLOADED = frozenset({"code", "dataset", "model", "upload"})  # kinds that count against the limit of a team


@dataclass(frozen=True, slots=True)
class Part:
    kind: str
    bytes: int
    items: int
    cold_bytes: int  # of them, in the cold store
    limit: int | None  # of this kind, where somebody has set one


@dataclass(frozen=True, slots=True)
class TeamStorage:
    team: str
    parts: tuple[Part, ...]  # the largest first
    days: tuple[Day, ...]  # all kinds together
    growth: float | None  # bytes a day
    uploaded: int  # what counts against the limit
    limit: int
    days_left: float | None  # until uploads are refused, if it goes on so
    budget: int | None  # micro-dollars a month

    @property
    def bytes(self) -> int:
        return sum(part.bytes for part in self.parts)

    @property
    def month_micro_dollars(self) -> int:
        """What it costs a month as it is now; 0 where nobody has set a price."""
        return _month_micro_dollars(self.bytes, sum(part.cold_bytes for part in self.parts))

    @property
    def is_over_budget(self) -> bool:
        return self.budget is not None and self.month_micro_dollars > self.budget


@dataclass(frozen=True, slots=True)
class Share:
    team: str  # of a project; "": of all teams that were asked for
    name: str  # of the project, owner, age, kind or team; "": of none that is known
    bytes: int
    items: int
    cold_bytes: int

    @property
    def month_micro_dollars(self) -> int:
        return _month_micro_dollars(self.bytes, self.cold_bytes)


def _month_micro_dollars(size: int, cold: int) -> int:
    hot = monthly(size - cold, settings.STORAGE_PRICE)
    return hot + monthly(cold, settings.COLD_STORAGE_PRICE)


def shares(names: Iterable[str] | None, by: Split, team: str = "") -> list[Share]:
    """How that which these teams (None: all), or one of them, have divides, the largest first; as accounted last."""
    rows = StoredShare.objects.all() if names is None else StoredShare.objects.filter(team__in=list(names))
    if team:
        rows = rows.filter(team=team)
    of_team = F("team") if by is Split.PROJECT else Value("")  # each team has projects of its own
    sums = rows.order_by().values_list(of_team, by.value)
    sums = sums.annotate(sum=Sum("bytes"), items=Sum("items"), cold=Sum("cold_bytes"))
    return sorted((Share(*row) for row in sums), key=lambda one: (-one.bytes, one.team, one.name))


def teams(names: Iterable[str] | None) -> list[TeamStorage]:
    """Of these teams (None: of all), the largest first; as it was accounted last."""
    today = now_ms() // DAY_MS
    rows = StoredDay.objects.filter(day__gt=today - TREND_DAYS).order_by("day")
    if names is not None:
        rows = rows.filter(team__in=list(names))
    by_team: dict[str, list[StoredDay]] = {}
    for row in rows:
        by_team.setdefault(row.team_id, []).append(row)
    uploaded, limits = artifacts.uploaded_bytes(), artifacts.storage_limits(by_team)
    budgets = dict(StorageBudget.objects.filter(team__in=by_team).values_list("team", "month_micro_dollars"))
    found = [
        _team(team, rows_of, uploaded.get(team, 0), limits.get(team, {}), budgets.get(team))
        for team, rows_of in by_team.items()
    ]
    return sorted(found, key=lambda one: (-one.bytes, one.team))


def _team(
    team: str, rows: Sequence[StoredDay], uploaded: int, limits: Mapping[str, int], budget: int | None
) -> TeamStorage:
    days, uploads = _days(rows), _days([row for row in rows if row.kind in UPLOADED])
    newest = days[-1].number
    parts = [
        Part(row.kind, row.bytes, row.items, row.cold_bytes, limits.get(row.kind))
        for row in rows
        if row.day == newest and row.items
    ]
    limit = settings.TEAM_UPLOAD_LIMIT_BYTES
    return TeamStorage(
        team, tuple(sorted(parts, key=lambda part: (-part.bytes, part.kind))), days, per_day(days), uploaded, limit,
        days_left(uploaded, limit, per_day(uploads)), budget,
    )  # fmt: skip


def _days(rows: Iterable[StoredDay]) -> tuple[Day, ...]:
    totals: dict[int, int] = {}
    for row in rows:
        totals[row.day] = totals.get(row.day, 0) + row.bytes
    return tuple(Day(day, size) for day, size in sorted(totals.items()))


def leftovers(names: Iterable[str] | None, limit: int = SHOWN_LEFTOVERS) -> list[Leftover]:
    """Of these teams (None: of all), those that are not deleted yet, the largest first."""
    rows = Leftover.objects.filter(deleted_ms=None).select_related("kept_by").order_by("-bytes", "id")
    return list((rows if names is None else rows.filter(team__in=list(names)))[:limit])


def stored_bytes() -> int:
    """What the store holds, as it was accounted last."""
    newest = StoredDay.objects.order_by("-day").values("day")[:1]
    return StoredDay.objects.filter(day=newest).aggregate(sum=Sum("bytes"))["sum"] or 0


@dataclass(frozen=True, slots=True)
class Scrub:
    """How far the store was read again. `oldest_ms`: when that which waits longest was read last; None: never."""

    days: int  # within which everything is to be read; 0: nothing is
    oldest_ms: int | None
    late: bool


def scrub() -> Scrub:
    row, days = artifacts.longest_unchecked(), settings.SCRUB_DAYS
    since = (row.checked_ms or row.created_ms) if row else now_ms()
    late = bool(days) and is_late(since, days, now_ms())
    return Scrub(days, (row.checked_ms or None) if row else None, late)


def damages(names: Iterable[str] | None, limit: int = SHOWN_DAMAGES) -> list[Damage]:
    """Files of these teams (None: of all) that the store does not have as they were registered; then mended ones."""
    rows = Damage.objects.order_by(F("mended_ms").desc(nulls_first=True), "-found_ms")
    if names is None:
        return list(rows[:limit])
    return list(rows.filter(manifest__in=artifacts.of_teams(names))[:limit])


def damaged_files() -> dict[str, list[Damage]]:
    """Team → what it has lost and not got back."""
    rows = Damage.objects.filter(mended_ms=None).order_by("-found_ms")[:SHOWN_DAMAGES]
    by_team: dict[str, list[Damage]] = {}
    teams = artifacts.teams_of([row.manifest for row in rows])
    for row in rows:
        for manifest, team, _ in teams:
            if manifest == row.manifest:
                by_team.setdefault(team, []).append(row)
    return by_team


def mends_on(node_ids: Collection[str]) -> dict[str, tuple[MendWanted, ...]]:
    """Node → the files that it shall write back."""
    rows = list(
        Damage.objects.filter(mender__in=node_ids, mended_ms=None).order_by("manifest", "asks", "path")
    )
    references = artifacts.references({row.manifest for row in rows})
    orders: dict[str, dict[tuple[str, int], list[str]]] = {node: {} for node in node_ids}
    for row in rows:
        orders[row.mender].setdefault((row.manifest, row.asks), []).append(row.path)
    return {
        node: tuple(
            MendWanted(references[manifest], tuple(paths), order)
            for (manifest, order), paths in of_node.items()
            if manifest in references and references[manifest].source_url
        )
        for node, of_node in orders.items()
    }


def goes_ms(row: Leftover) -> int | None:
    """When its bytes are deleted; None where somebody keeps them, or nothing is deleted here."""
    grace = settings.LEFTOVER_GRACE_DAYS
    return row.found_ms + grace * DAY_MS if grace and row.kept_by_id is None else None
