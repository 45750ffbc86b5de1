"""Silent corruption: what the ranks of a job found when they compared their results, and which nodes that accuses."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Q

from platform_core.jobs.launching import METHODS, Strategy
from platform_core.recovery.corruption import Agreement, Alibi, Suspicion, convicted, is_vouched_for
from platform_core.units import DAY_MS
from webapp.events import services as events
from webapp.jobs.models import Attempt, Corruption, Job, Member
from webapp.nodes import queries as cluster_queries
from webapp.sockets import services as sockets

WINDOW_MS = DAY_MS  # a node is accused so long


@dataclass(frozen=True, slots=True)
class Found:
    """What the script tells, with the nodes of its ranks."""

    step: int
    guilty: Sequence[int]
    suspects: Sequence[int]
    at_ms: int


def agreed(job_id: str, attempt: int, step: int) -> None:
    """All ranks computed the same at this step."""
    rows = Attempt.objects.filter(job=job_id, number=attempt)
    if rows.filter(Q(agreed_step=None) | Q(agreed_step__lt=step)).update(agreed_step=step):
        sockets.publish(f"job:{job_id}")


def agreements(job_id: str) -> list[Agreement]:
    rows = Attempt.objects.filter(job=job_id).exclude(agreed_step=None)
    known = rows.values_list("number", "agreed_step")
    return [Agreement(number, step) for number, step in known if step is not None]


def note_corruption(job_id: str, number: int, found: Found) -> Corruption | None:
    """Keeps it with the nodes of the ranks; None where it is known. Behind the job's lock."""
    attempt = Attempt.objects.select_related("job").get(job=job_id, number=number)
    if Corruption.objects.filter(attempt=attempt).exists():
        return None
    nodes, suspects = _nodes(attempt, found.guilty), _nodes(attempt, found.suspects)
    if not nodes and len(suspects) == 1:  # all suspected ranks are on one node
        nodes, suspects = suspects, []
    return Corruption.objects.create(
        attempt=attempt, step=found.step, at_ms=found.at_ms, nodes=nodes, suspects=suspects,
        sentence=_sentence(found, nodes, suspects),
    )  # fmt: skip


def suspect(job_id: str, attempt: int, step: int) -> str:
    """Why a checkpoint cannot be trusted; '' where nothing speaks against it."""
    row = (
        Corruption.objects.filter(attempt__job=job_id, attempt__number__gte=attempt).order_by("at_ms").first()
    )
    if row is None or is_vouched_for(attempt, step, agreements(job_id)):
        return ""
    return distrust(row)


def distrust(row: Corruption) -> str:
    """What is said of checkpoints from after the last agreement."""
    return f"its ranks computed different results at step {row.step:,} and had not agreed since it was saved"


def accused(at_ms: int) -> tuple[dict[str, int], set[str]]:
    """Guilty nodes with how often they were, and suspected ones, by the findings of the last day."""
    rows = list(Corruption.objects.filter(at_ms__gte=at_ms - WINDOW_MS).order_by("at_ms"))
    guilty = Counter(node for row in rows for node in row.nodes)
    open_rows = [row for row in rows if row.suspects]
    if open_rows:
        suspicions = [Suspicion(row.at_ms, frozenset(row.suspects)) for row in open_rows]
        guilty.update(convicted(suspicions, _alibis(open_rows[0].at_ms)) - guilty.keys())
    suspects = {node for row in open_rows if not guilty.keys() & set(row.suspects) for node in row.suspects}
    return dict(guilty), suspects


def alarm(attempt: Attempt, cause: str, at_ms: int) -> None:
    """A loss or a gradient norm of a run is out of bounds."""
    job = attempt.job
    events.record(
        "TrainingAlarm", f"job:{job.id}", actor="system", team=job.team_id, cause=cause, at_ms=at_ms,
        data={"name": job.name, "state": job.state, "attempt": attempt.number}, notify=(f"jobs:{job.team_id}",),
    )  # fmt: skip
    sockets.publish(f"job:{job.id}")


@dataclass(frozen=True, slots=True)
class Findings:
    """Of one job: the last agreement, and each disagreement, newest first."""

    agreed_step: int | None
    agreed_attempt: int
    corruptions: tuple[Corruption, ...]


def of_job(job: Job) -> Findings:
    last = max(agreements(job.id), key=lambda seen: (seen.attempt, seen.step), default=None)
    rows = Corruption.objects.filter(attempt__job=job).select_related("attempt").order_by("-at_ms")
    return Findings(last.step if last else None, last.attempt if last else 0, tuple(rows))


def _nodes(attempt: Attempt, ranks: Sequence[int]) -> list[str]:
    """The nodes of these ranks, which are numbered through the members in their order."""
    per_slot = METHODS[Strategy(attempt.job.spec.get("strategy", Strategy.TORCHRUN))].per_slot
    of_rank = [
        member.node_id
        for member in Member.objects.filter(attempt=attempt).order_by("rank")
        for _ in (member.slots if per_slot else (0,))
    ]
    return sorted({of_rank[rank] for rank in ranks if 0 <= rank < len(of_rank)})


def _alibis(since_ms: int) -> list[Alibi]:
    rows = (
        Attempt.objects.filter(placed_ms__gt=since_ms).exclude(agreed_step=None).prefetch_related("members")
    )
    return [Alibi(row.placed_ms, frozenset(m.node_id for m in row.members.all())) for row in rows]


def _sentence(found: Found, nodes: Sequence[str], suspects: Sequence[str]) -> str:
    ranks = ", ".join(map(str, found.guilty or found.suspects))
    hosts = cluster_queries.all_with_hostnames([" and ".join(nodes or suspects)])[0]
    if found.guilty:
        return f"rank {ranks} on {hosts} differs from the others"
    return f"one of the ranks {ranks} on {hosts} is wrong"
