"""What an agent observes, told to the apps that own it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from platform_core.jobs.events import MemberObserved
from platform_core.jobs.job import EndKind, MemberPhase
from trainmaster_wire.agent.v1 import session_pb2
from webapp.base.identity import now_ms
from webapp.checkpoints import services as checkpoints
from webapp.deployments import services as deployments
from webapp.jobs import queries as job_queries
from webapp.jobs import services as jobs
from webapp.jobs.queries import MemberSeen
from webapp.nodes import services as clusters
from webapp.rpc.conversion import activation_reports, attempts, worker_reports

_PHASES = {
    session_pb2.AttemptObserved.PREPARING: MemberPhase.PREPARING,
    session_pb2.AttemptObserved.RUNNING: MemberPhase.RUNNING,
    session_pb2.AttemptObserved.EXITED: MemberPhase.EXITED,
}
_ENDS = {
    session_pb2.AttemptObserved.SCRIPT: EndKind.SCRIPT,
    session_pb2.AttemptObserved.OUT_OF_MEMORY: EndKind.OUT_OF_MEMORY,
    session_pb2.AttemptObserved.INFRASTRUCTURE: EndKind.INFRASTRUCTURE,
    session_pb2.AttemptObserved.STOPPED: EndKind.STOPPED,
}


@dataclass(frozen=True, slots=True)
class Heard:
    """Everything a node has. `complete` (a Hello) also means: what is wanted there and not named has not begun."""

    node_id: str
    observed: session_pb2.Observed
    complete: bool


def observe(batch: Sequence[Heard]) -> list[None]:
    """What nodes said, in this order."""
    _attempts(batch)
    deployments.report_all(
        [(heard.node_id, report) for heard in batch for report in worker_reports(heard.observed)]
    )
    deployments.observe_activations({heard.node_id: activation_reports(heard.observed) for heard in batch})
    for heard in batch:
        if heard.complete:
            has = {each.attempt_id for each in heard.observed.attempts}
            jobs.reconcile_node(heard.node_id, has, now_ms())
    return [None for _ in batch]


def _attempts(batch: Sequence[Heard]) -> None:
    """What they said of their attempts: all of it in one transaction.

    Before it the checkpoints that they could not restore, so that what ended for that goes on from another.
    """
    now = now_ms()
    said = [(heard.node_id, attempt) for heard in batch for attempt in attempts(heard.observed)]
    known = job_queries.members([(attempt.attempt_id, node_id) for node_id, attempt in said])
    news, ended, refused = [], set(), []
    for node_id, attempt in said:
        member = known.get((attempt.attempt_id, node_id))
        if member is not None and (event := _news(node_id, attempt, member, now)) is not None:
            news.append((member.job_id, event))
            if event.phase is MemberPhase.EXITED:
                ended.add((attempt.attempt_id, node_id))
                if attempt.resume_damaged:
                    refused.append(_damage(node_id, attempt, member))
    for told in refused:
        checkpoints.mark_damaged(**told)
    with transaction.atomic():
        jobs.observe_all(news)
        # Nothing of these is wanted any more: their agents may clean up.
        clusters.touch(jobs.mark_drained(ended))


def _damage(node_id: str, attempt: session_pb2.AttemptObserved, member: MemberSeen) -> dict[str, Any]:
    return {
        "checkpoint_id": member.resume_checkpoint,
        "job_id": member.job_id,
        "attempt": member.attempt,
        "why": attempt.reason,
        "actor": f"node:{node_id}",
    }


def _news(
    node_id: str, attempt: session_pb2.AttemptObserved, member: MemberSeen, now: int
) -> MemberObserved | None:
    phase = _PHASES.get(attempt.phase)
    exited = phase is MemberPhase.EXITED
    if phase is None or (exited and not attempt.uplink_drained):
        return None  # the last metrics and the checkpoint are still on their way; recovery shall see them
    if phase == member.phase and (member.drained or not exited):
        return None  # an agent tells everything it has whenever anything changes: most of it is known
    return MemberObserved(
        at_ms=now,
        actor=f"node:{node_id}",
        attempt=member.attempt,
        node=node_id,
        phase=phase,
        exit_code=attempt.exit_code if exited else None,
        reason=attempt.reason if exited else "",
        end=_ENDS.get(attempt.end, EndKind.SCRIPT) if exited else EndKind.SCRIPT,
    )
