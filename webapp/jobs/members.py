"""The members of attempts as the gateway reads them: what their nodes should do, and what is known of them."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from platform_core.jobs.job import MemberPhase
from platform_core.jobs.states import TERMINAL
from webapp.jobs import traces
from webapp.jobs.models import Member


@dataclass(frozen=True, slots=True)
class MemberWanted:
    """One member of an attempt that its node should run or stop."""

    attempt_id: str
    job_id: str
    job_name: str
    team: str
    attempt: int
    stopping: bool
    stop_grace_ms: int
    stop_deadline_ms: int  # 0: it is not being stopped
    stop_reason: str
    begun: bool  # the agent has it already
    nodes: int
    node_rank: int
    slots: tuple[int, ...]
    spec: dict[str, Any]
    master_address: str
    master_port: int
    resume_checkpoint: str
    stacks_order: int
    gang: tuple[str, ...]  # the nodes of the attempt
    traceparent: str  # of the attempt


@dataclass(frozen=True, slots=True)
class MemberSeen:
    """One member of an attempt as the platform knows it."""

    job_id: str
    attempt: int
    phase: str
    drained: bool
    resume_checkpoint: str
    start_phases: list[list[Any]]  # kept of it


def members(seats: Collection[tuple[str, str]]) -> dict[tuple[str, str], MemberSeen]:
    """Returns the members of these (attempt, node) pairs that were placed there."""
    rows = Member.objects.filter(
        attempt__in={attempt for attempt, _ in seats}, node__in={node for _, node in seats}
    )
    columns = (
        "attempt_id", "node_id", "attempt__job_id", "attempt__number", "phase", "drained", "attempt__resume_checkpoint",
        "start_phases",
    )  # fmt: skip
    return {(attempt, node): MemberSeen(*known) for attempt, node, *known in rows.values_list(*columns)}


def wanted_on(node_ids: Collection[str]) -> dict[str, list[MemberWanted]]:
    """Returns the wanted members by node. A member stays wanted until its agent has sent everything of it."""
    rows = (
        Member.objects.filter(node__in=node_ids, drained=False)
        .exclude(phase="lost")
        .select_related("attempt__job")
        .order_by("attempt_id")
    )
    gangs = _gangs([row.attempt_id for row in rows])
    wanted: dict[str, list[MemberWanted]] = {node: [] for node in node_ids}
    for row in rows:
        wanted[row.node_id].append(
            MemberWanted(
                attempt_id=row.attempt_id,
                job_id=row.attempt.job_id,
                job_name=row.attempt.job.name,
                team=row.attempt.job.team_id,
                attempt=row.attempt.number,
                stopping=_stopping(row),
                stop_grace_ms=row.attempt.job.stop_grace_ms,
                begun=row.phase != MemberPhase.ASSIGNED,
                nodes=len(gangs[row.attempt_id]),
                node_rank=row.rank,
                slots=tuple(row.slots),
                spec=row.attempt.job.spec,
                master_address=row.attempt.master_address,
                master_port=row.attempt.master_port,
                resume_checkpoint=row.attempt.resume_checkpoint,
                stop_reason=row.attempt.job.reason,
                stop_deadline_ms=_deadline_ms(row),
                stacks_order=row.attempt.stacks_order,
                gang=tuple(gangs[row.attempt_id]),
                traceparent=traces.traceparent(row.attempt.job.traceparent, row.attempt_id),
            )
        )
    return wanted


def _stopping(row: Member) -> bool:
    job = row.attempt.job
    return job.stop != "none" or job.attempt != row.attempt.number or job.state in TERMINAL


def _deadline_ms(row: Member) -> int:
    stopping_ms = row.attempt.stopping_ms
    return stopping_ms + row.attempt.job.stop_grace_ms if stopping_ms is not None else 0


def _gangs(attempt_ids: Iterable[str]) -> dict[str, list[str]]:
    """Attempt → its nodes, by rank."""
    gangs: dict[str, list[str]] = {}
    rows = Member.objects.filter(attempt_id__in=list(attempt_ids)).order_by("rank")
    for attempt_id, node in rows.values_list("attempt_id", "node_id"):
        gangs.setdefault(attempt_id, []).append(node)
    return gangs
