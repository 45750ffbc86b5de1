"""Reads of quotas and of the ledger: use now, use over time, GPU-hours, cost, fair shares."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from django.core.cache import cache
from django.db.models import (
    BigIntegerField,
    Count,
    DecimalField,
    ExpressionWrapper,
    F,
    Q,
    QuerySet,
    Sum,
    Value,
)
from django.db.models.functions import Coalesce, Greatest, Least

from platform_core.cluster.invariants import LedgerEntry as Booked
from platform_core.cluster.snapshot import TeamShare
from platform_core.quotas.admission import Admitted, Refused, Request, admit
from platform_core.quotas.cost import cost_micro_dollars
from platform_core.quotas.fair_share import HALF_LIFE_MS, Use, decayed_by_team
from platform_core.quotas.guarantees import overcommitted
from platform_core.quotas.limits import Limits, Usage
from platform_core.quotas.recent_use import UseBefore
from webapp.nodes import queries as nodes
from webapp.quotas import mapping, tree
from webapp.quotas.models import LedgerEntry, Price, Quota
from webapp.quotas.tree import Tree

REMEMBERED_MS = 4 * HALF_LIFE_MS  # older use counts for less than a sixteenth
RECENT_SECONDS = 30  # use that fades over days need not be summed up at every tick
RECENT_KEY = "quotas:recent"


@dataclass(frozen=True, slots=True)
class QuotaView:
    team: str
    gpu_type: str
    guaranteed: int
    maximum: int
    queue_beyond: bool
    version: int
    held: int
    price_hour: int  # micro-dollars for one slot
    notice: str  # that all teams together are guaranteed more slots than there are, or ""

    @property
    def borrowed(self) -> int:
        return max(0, self.held - self.guaranteed)

    @property
    def headroom(self) -> int:
        return max(0, self.maximum - self.held)


@dataclass(frozen=True, slots=True)
class Holder:
    """Job, team and user of an attempt that holds slots now."""

    job_id: str
    team: str
    user: str


@dataclass(frozen=True, slots=True)
class MemberCost:
    user: str
    jobs: int
    gpu_ms: int
    micro_dollars: int


@dataclass(frozen=True, slots=True)
class JobCost:
    id: str
    user: str
    gpu_type: str
    gpu_ms: int
    micro_dollars: int


def held(team: str, gpu_type: str) -> int:
    """Returns the slots of this type in use by the team: the sum of its open entries."""
    entries = LedgerEntry.objects.filter(team=team, gpu_type=gpu_type, ended_ms=None)
    return entries.aggregate(slots=Sum("slots"))["slots"] or 0


def quotas(team: str, *, with_notices: bool = True) -> tuple[QuotaView, ...]:
    """`with_notices` also compares all guarantees with the registered slots, at the cost of two more queries."""
    notices = _notices() if with_notices else {}
    return _views(Quota.objects.filter(team=team), LedgerEntry.objects.filter(team=team), notices)


def quotas_of_all() -> tuple[QuotaView, ...]:
    """Returns every quota, by GPU type, then by team."""
    return _views(Quota.objects.all(), LedgerEntry.objects.all(), _notices())


def quotas_of_teams(teams: Iterable[str]) -> tuple[QuotaView, ...]:
    """In three queries, however many teams they are, and without notices."""
    slugs = list(teams)
    return _views(Quota.objects.filter(team__in=slugs), LedgerEntry.objects.filter(team__in=slugs), {})


def _views(
    quotas: QuerySet[Quota], entries: QuerySet[LedgerEntry], notices: Mapping[str, str]
) -> tuple[QuotaView, ...]:
    price_of = prices()
    held_now = {
        (team, gpu_type): slots
        for team, gpu_type, slots in entries.filter(ended_ms=None)
        .order_by()
        .values_list("team_id", "gpu_type")
        .annotate(Sum("slots"))
    }
    return tuple(
        QuotaView(
            team=row.team_id,
            gpu_type=row.gpu_type,
            guaranteed=row.guaranteed,
            maximum=row.maximum,
            queue_beyond=row.queue_beyond,
            version=row.version,
            held=held_now.get((row.team_id, row.gpu_type), 0),
            price_hour=price_of.get(row.gpu_type, 0),
            notice=notices.get(row.gpu_type, ""),
        )
        for row in quotas.order_by("gpu_type", "team_id")
    )


def _notices() -> dict[str, str]:
    """GPU type → a sentence where all teams together are guaranteed more slots than registered, else ""."""
    guaranteed = dict(Quota.objects.values_list("gpu_type").annotate(total=Sum("guaranteed")))
    slots = nodes.registered_slots()
    return {
        gpu_type: overcommitted(gpu_type, total, slots.get(gpu_type, 0))
        for gpu_type, total in guaranteed.items()
    }


def limits(team: str, gpu_type: str) -> Limits | None:
    return mapping.limits(Quota.objects.filter(team=team, gpu_type=gpu_type).first())


def would_admit(team: str, gpu_type: str, gpus: int, queued_gpus: int) -> Admitted | Refused:
    """Returns the decision of `services.admit` at this moment, without a lock, for a form being filled in."""
    usage = Usage(held=held(team, gpu_type), queued=queued_gpus)
    return admit(Request(team=team, gpu_type=gpu_type, gpus=gpus), usage, limits(team, gpu_type))


def prices() -> dict[str, int]:
    """GPU type → micro-dollars for one slot and hour; types without a price are left out."""
    return dict(Price.objects.values_list("gpu_type", "micro_dollars_per_hour"))


def price(gpu_type: str) -> int:
    """Returns micro-dollars for one slot and hour; 0 where no price is set."""
    return prices().get(gpu_type, 0)


def gpu_types() -> tuple[str, ...]:
    """Returns every GPU type with a quota."""
    return tuple(Quota.objects.order_by("gpu_type").values_list("gpu_type", flat=True).distinct())


def holders(attempt_ids: Iterable[str]) -> dict[str, Holder]:
    """Attempt → its holder, for those of these attempts that hold slots now."""
    rows = LedgerEntry.objects.filter(attempt_id__in=list(attempt_ids), ended_ms=None)
    fields = ("attempt_id", "job_id", "team_id", "user__username")
    return {
        attempt: Holder(job, team, user) for attempt, job, team, user in rows.values_list(*fields).distinct()
    }


def use_over_time(team: str, from_ms: int, to_ms: int) -> dict[str, tuple[tuple[int, int], ...]]:
    """GPU type → steps (moment, slots held from then on), beginning at `from_ms`."""
    changes: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    rows = _overlapping(LedgerEntry.objects.filter(team=team), from_ms, to_ms)
    for gpu_type, slots, started_ms, ended_ms in rows.values_list(
        "gpu_type", "slots", "started_ms", "ended_ms"
    ):
        changes[gpu_type][max(started_ms, from_ms)] += slots
        if ended_ms is not None and ended_ms < to_ms:
            changes[gpu_type][ended_ms] -= slots
    return {gpu_type: _steps(changes[gpu_type], from_ms) for gpu_type in sorted(changes)}


def _steps(changes: dict[int, int], from_ms: int) -> tuple[tuple[int, int], ...]:
    level = 0
    steps: list[tuple[int, int]] = []
    for at_ms in sorted({from_ms, *changes}):
        level += changes.get(at_ms, 0)
        if not steps or steps[-1][1] != level:
            steps.append((at_ms, level))
    return tuple(steps)


def costs_by_member(team: str, from_ms: int, to_ms: int) -> tuple[MemberCost, ...]:
    """Returns the costs of the period by member, most expensive first."""
    rows = _overlapping(LedgerEntry.objects.filter(team=team), from_ms, to_ms)
    jobs = dict(rows.values_list("user__username").annotate(jobs=Count("job_id", distinct=True)))
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for user, ms, dollars in _priced(rows, from_ms, to_ms, "user__username"):
        sums[user][0] += ms
        sums[user][1] += dollars
    costs = [MemberCost(user, jobs[user], ms, dollars) for user, (ms, dollars) in sums.items()]
    return tuple(sorted(costs, key=lambda cost: (-cost.micro_dollars, -cost.gpu_ms, cost.user)))


def use_by_team(from_ms: int, to_ms: int) -> dict[tuple[str, str], tuple[int, int]]:
    """(team, GPU type) → slot-milliseconds and micro-dollars of the period."""
    sums: dict[tuple[str, str], tuple[int, int]] = defaultdict(lambda: (0, 0))
    rows = _overlapping(LedgerEntry.objects.all(), from_ms, to_ms)
    for team, gpu_type, ms, dollars in _priced(rows, from_ms, to_ms, "team_id", "gpu_type"):
        before = sums[team, gpu_type]
        sums[team, gpu_type] = (before[0] + ms, before[1] + dollars)
    return dict(sums)


def guarantees() -> dict[tuple[str, str], int]:
    """(team, GPU type) → guaranteed slots."""
    rows = Quota.objects.values_list("team_id", "gpu_type", "guaranteed")
    return {(team, gpu_type): guaranteed for team, gpu_type, guaranteed in rows}


def costs_by_job(team: str, from_ms: int, to_ms: int) -> tuple[JobCost, ...]:
    """Returns the costs of the period by job, most expensive first."""
    rows = _overlapping(LedgerEntry.objects.filter(team=team), from_ms, to_ms)
    return _job_costs(rows, from_ms, to_ms)


def costs_by_team_and_job(
    teams: Collection[str] | None, from_ms: int, to_ms: int
) -> tuple[tuple[str, JobCost], ...]:
    """Returns team and costs of each job of these teams, or of all, most expensive first."""
    entries = LedgerEntry.objects.all() if teams is None else LedgerEntry.objects.filter(team__in=list(teams))
    rows = _overlapping(entries, from_ms, to_ms)
    team_of = dict(rows.values_list("job_id", "team_id").distinct())
    return tuple((team_of[cost.id], cost) for cost in _job_costs(rows, from_ms, to_ms))


def cost_of_job(job_id: str, now_ms: int) -> JobCost | None:
    """Returns GPU time and cost of a job up to now; None before it held a slot."""
    return costs_of_jobs([job_id], now_ms).get(job_id)


def costs_of_jobs(job_ids: Iterable[str], now_ms: int) -> dict[str, JobCost]:
    """Job id → GPU time and cost up to now; jobs that never held a slot are left out."""
    costs = _job_costs(LedgerEntry.objects.filter(job_id__in=list(job_ids)), 0, now_ms)
    return {cost.id: cost for cost in costs}


def _job_costs(rows: QuerySet[LedgerEntry], from_ms: int, to_ms: int) -> tuple[JobCost, ...]:
    whose: dict[str, tuple[str, str]] = {}
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for job, user, gpu_type, ms, dollars in _priced(
        rows, from_ms, to_ms, "job_id", "user__username", "gpu_type"
    ):
        whose[job] = (user, gpu_type)
        sums[job][0] += ms
        sums[job][1] += dollars
    costs = [JobCost(job, *whose[job], ms, dollars) for job, (ms, dollars) in sums.items()]
    return tuple(sorted(costs, key=lambda cost: (-cost.micro_dollars, -cost.gpu_ms, cost.id)))


def _overlapping(rows: QuerySet[LedgerEntry], from_ms: int, to_ms: int) -> QuerySet[LedgerEntry]:
    return rows.filter(Q(ended_ms=None) | Q(ended_ms__gt=from_ms), started_ms__lt=to_ms)


def _priced(rows: QuerySet[LedgerEntry], from_ms: int, to_ms: int, *keys: str) -> Iterable[tuple]:
    """Yields (*keys, slot-milliseconds, micro-dollars) for each group of one price, summed by the database."""
    end = Least(Coalesce("ended_ms", Value(to_ms)), Value(to_ms))
    begin = Greatest("started_ms", Value(from_ms))
    ms = ExpressionWrapper((end - begin) * F("slots"), output_field=BigIntegerField())
    summed = Sum(ms, output_field=DecimalField(max_digits=30, decimal_places=0))
    groups = rows.order_by().values_list(*keys, "micro_dollars_per_hour").annotate(ms=summed)
    for *key, price_hour, total in groups:
        yield (*key, int(total), cost_micro_dollars(int(total), 1, price_hour))


def team_shares(now_ms: int, known: Tree | None = None) -> tuple[TeamShare, ...]:
    """Returns every quota as the scheduler's snapshot takes it. The recent use may be half a minute old.

    `known`: the tree that the caller has read; a team created since then is left out.
    """
    departments = known or tree.load()
    rows = list(Quota.objects.filter(team__in=departments.teams).order_by("team_id", "gpu_type"))
    used = {
        (team, gpu_type): slots
        for team, gpu_type, slots in LedgerEntry.objects.filter(ended_ms=None)
        .values_list("team_id", "gpu_type")
        .annotate(slots=Sum("slots"))
    }
    recent = recent_use(now_ms)
    weights: dict[tuple[str, str], float] = {}
    shares: dict[tuple[str, str], float] = {}
    for gpu_type in {row.gpu_type for row in rows}:
        teams = [row.team_id for row in rows if row.gpu_type == gpu_type]
        hierarchy = departments.of(teams)
        lately = {team: recent.get((team, gpu_type), 0.0) for team in teams}
        weights |= {(team, gpu_type): weight for team, weight in hierarchy.weights().items()}
        shares |= {(team, gpu_type): share for team, share in hierarchy.usage_shares(lately).items()}
    return tuple(
        TeamShare(
            team=row.team_id,
            gpu_type=row.gpu_type,
            guaranteed=row.guaranteed,
            maximum=row.maximum,
            used=used.get((row.team_id, row.gpu_type), 0),
            weight=weights[row.team_id, row.gpu_type],
            usage_share=shares[row.team_id, row.gpu_type],
        )
        for row in rows
    )


def use_before(gpu_type: str, at_ms: int) -> UseBefore:
    """Returns the recent use, at that time, of the teams with a quota of the type."""
    teams = Quota.objects.filter(gpu_type=gpu_type).order_by("team_id").values_list("team_id", flat=True)
    hierarchy, recent = tree.load().of(teams), _recent_use(at_ms)
    return UseBefore(at_ms, hierarchy, {team: recent.get((team, gpu_type), 0.0) for team in hierarchy.ways})


def recent_use(now_ms: int) -> dict[tuple[str, str], float]:
    """(team, GPU type) → decayed slot-milliseconds, at most half a minute old."""
    use = cache.get(RECENT_KEY)
    if use is None:
        use = _recent_use(now_ms)
        cache.set(RECENT_KEY, use, RECENT_SECONDS)
    return cast(dict[tuple[str, str], float], use)


def _recent_use(now_ms: int) -> dict[tuple[str, str], float]:
    uses: dict[str, list[Use]] = defaultdict(list)
    recent = LedgerEntry.objects.filter(Q(ended_ms=None) | Q(ended_ms__gt=now_ms - REMEMBERED_MS))
    fields = ("gpu_type", "team_id", "slots", "started_ms", "ended_ms")
    for gpu_type, team, slots, started_ms, ended_ms in recent.values_list(*fields):
        uses[gpu_type].append(Use(team, slots, started_ms, ended_ms))
    return {
        (team, gpu_type): used
        for gpu_type, of_type in uses.items()
        for team, used in decayed_by_team(of_type, {use.team for use in of_type}, now_ms).items()
    }


def books() -> tuple[Booked, ...]:
    """Returns the whole ledger, for the invariants of the core."""
    rows = LedgerEntry.objects.values_list("attempt_id", "node_id", "slots", "started_ms", "ended_ms")
    return tuple(Booked(*row) for row in rows)
