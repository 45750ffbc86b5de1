"""The observed state of nodes, given to the apps that own its parts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from platform_core.jobs.ends import EndReason
from platform_core.jobs.events import MemberObserved
from platform_core.jobs.job import MemberPhase
from platform_core.node.observed import AttemptObserved
from trainmaster_wire.agent.v1 import session_pb2
from webapp.base.identity import now_ms
from webapp.checkpoints import services as checkpoints
from webapp.deployments import services as deployments
from webapp.jobs import hangs, traces
from webapp.jobs import services as jobs
from webapp.jobs.members import MemberSeen, members
from webapp.nodes import services as clusters
from webapp.rollouts import services as rollouts
from webapp.rpc import bounds


@dataclass(frozen=True, slots=True)
class Report:
    """The observed state of a node. `complete` (in a Hello): wanted attempts that it does not name have not begun."""

    node_id: str
    message: session_pb2.Observed
    complete: bool


def observe(reports: Sequence[Report]) -> list[None]:
    """Stores what nodes report, in this order."""
    complete = [
        (report.node_id, {attempt.attempt_id for attempt in report.message.attempts})
        for report in reports
        if report.complete
    ]
    states = [(report.node_id, bounds.observed(report.message)) for report in reports]
    _attempts([(node, attempt) for node, state in states for attempt in state.attempts])
    deployments.report_all([(node, deployment) for node, state in states for deployment in state.deployments])
    rollouts.observe({node: state.activations for node, state in states})
    for node, attempt_ids in complete:
        jobs.reconcile_node(node, attempt_ids, now_ms())
    return [None for _ in reports]


def _attempts(observed: Sequence[tuple[str, AttemptObserved]]) -> None:
    """Stores the state of attempts in one transaction.

    Damaged checkpoints are marked before it, so that jobs that could not restore go on from another one.
    """
    now = now_ms()
    known = members([(attempt.attempt_id, node) for node, attempt in observed])
    events, ended, damages = [], set(), []
    for node, attempt in observed:
        member = known.get((attempt.attempt_id, node))
        if member is not None and (event := _event(node, attempt, member, now)) is not None:
            events.append((member.job_id, event))
            if event.phase is MemberPhase.EXITED:
                ended.add((attempt.attempt_id, node))
                if attempt.resume_damaged:
                    damages.append(_damage(node, attempt, member))
    for damage in damages:
        checkpoints.mark_damaged(**damage)
    running = [seen for seen in observed if seen[1].phase is MemberPhase.RUNNING]
    with transaction.atomic():
        jobs.observe_all(events)
        # Nothing of these is wanted any more: their agents may clean up.
        clusters.touch(jobs.mark_drained(ended))
    traces.reported(
        {
            (attempt.attempt_id, node): attempt.phases
            for node, attempt in observed
            if attempt.phases
            and (member := known.get((attempt.attempt_id, node))) is not None
            and not member.start_phases
        }
    )
    hangs.observe([(node, attempt) for node, attempt in running if (attempt.attempt_id, node) in known])


def _damage(node: str, attempt: AttemptObserved, member: MemberSeen) -> dict[str, Any]:
    return {
        "checkpoint_id": member.resume_checkpoint,
        "job_id": member.job_id,
        "attempt": member.attempt,
        "why": attempt.reason,
        "actor": f"node:{node}",
    }


def _event(node: str, attempt: AttemptObserved, member: MemberSeen, now: int) -> MemberObserved | None:
    exited = attempt.phase is MemberPhase.EXITED
    if exited and not attempt.uplink_drained:
        return None  # the last metrics and the checkpoint are still on their way; recovery shall see them
    if attempt.phase == member.phase and (member.drained or not exited):
        return None  # an agent reports everything it has whenever anything changes: most of it is known
    return MemberObserved(
        at_ms=now,
        actor=f"node:{node}",
        attempt=member.attempt,
        node=node,
        phase=attempt.phase,
        exit_code=attempt.exit_code if exited else None,
        reason=attempt.reason if exited else "",
        end=attempt.end if exited else EndReason.SCRIPT_ERROR,
    )
