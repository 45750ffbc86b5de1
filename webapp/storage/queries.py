from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.conf import settings

from platform_core.storage.growth import Day, days_left, per_day
from platform_core.units import DAY_MS
from webapp.artifacts import queries as artifacts
from webapp.base.identity import now_ms
from webapp.storage.models import Leftover, StoredDay

TREND_DAYS = 28
SHOWN_LEFTOVERS = 200
UPLOADED = frozenset({"code", "dataset", "model", "upload"})  # kinds that count against the limit of a team


@dataclass(frozen=True, slots=True)
class Part:
    kind: str
    bytes: int
    items: int


@dataclass(frozen=True, slots=True)
class TeamStorage:
    team: str
    parts: tuple[Part, ...]  # the largest first
    days: tuple[Day, ...]  # all kinds together
    growth: float | None  # bytes a day
    uploaded: int  # what counts against the limit
    limit: int
    days_left: float | None  # until uploads are refused, if it goes on so

    @property
    def bytes(self) -> int:
        return sum(part.bytes for part in self.parts)


def teams(names: Iterable[str] | None) -> list[TeamStorage]:
    """Of these teams (None: of all), the largest first; as it was accounted last."""
    today = now_ms() // DAY_MS
    rows = StoredDay.objects.filter(day__gt=today - TREND_DAYS).order_by("day")
    if names is not None:
        rows = rows.filter(team__in=list(names))
    by_team: dict[str, list[StoredDay]] = {}
    for row in rows:
        by_team.setdefault(row.team_id, []).append(row)
    uploaded = artifacts.uploaded_bytes()
    found = [_team(team, rows_of, uploaded.get(team, 0)) for team, rows_of in by_team.items()]
    return sorted(found, key=lambda one: (-one.bytes, one.team))


def _team(team: str, rows: Sequence[StoredDay], uploaded: int) -> TeamStorage:
    days, uploads = _days(rows), _days([row for row in rows if row.kind in UPLOADED])
    newest = days[-1].number
    parts = [Part(row.kind, row.bytes, row.items) for row in rows if row.day == newest and row.items]
    limit = settings.TEAM_UPLOAD_LIMIT_BYTES
    return TeamStorage(
        team, tuple(sorted(parts, key=lambda part: (-part.bytes, part.kind))), days, per_day(days), uploaded, limit,
        days_left(uploaded, limit, per_day(uploads)),
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


def goes_ms(row: Leftover) -> int | None:
    """When its bytes are deleted; None where somebody keeps them, or nothing is deleted here."""
    grace = settings.LEFTOVER_GRACE_DAYS
    return row.found_ms + grace * DAY_MS if grace and row.kept_by_id is None else None
