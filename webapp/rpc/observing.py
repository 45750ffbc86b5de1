"""What an agent observes, told to the apps that own it."""

from platform_core.jobs.events import MemberObserved
from platform_core.jobs.job import MemberPhase
from trainmaster_wire.agent.v1 import session_pb2
from webapp.clusters import services as clusters
from webapp.deployments import services as deployments
from webapp.deployments.values import ActivationReport, WorkerReport
from webapp.jobs import queries as job_queries
from webapp.jobs import services as jobs
from webapp.jobs.queries import MemberSeen
from webapp.live.identity import now_ms

_PHASES = {
    session_pb2.AttemptObserved.PREPARING: MemberPhase.PREPARING,
    session_pb2.AttemptObserved.RUNNING: MemberPhase.RUNNING,
    session_pb2.AttemptObserved.EXITED: MemberPhase.EXITED,
}


def observe(node_id: str, observed: session_pb2.Observed, complete: bool) -> None:
    """Everything the node has. `complete` (a Hello) also means: what is wanted there and not named has not begun."""
    known = job_queries.members_of(node_id, [attempt.attempt_id for attempt in observed.attempts])
    for attempt in observed.attempts:
        if (member := known.get(attempt.attempt_id)) is not None:
            _attempt(node_id, attempt, member)
    for deployment in observed.deployments:
        deployments.report(node_id, _worker(deployment))
    deployments.observe_activations(node_id, [_activation(each) for each in observed.activations])
    if complete:
        jobs.reconcile_node(node_id, {attempt.attempt_id for attempt in observed.attempts}, now_ms())


def _attempt(node_id: str, attempt: session_pb2.AttemptObserved, member: MemberSeen) -> None:
    phase = _PHASES.get(attempt.phase)
    exited = phase is MemberPhase.EXITED
    if phase is None or (exited and not attempt.uplink_drained):
        return  # the last metrics and the checkpoint are still on their way; recovery shall see them
    if phase == member.phase and (member.drained or not exited):
        return  # an agent tells everything it has whenever anything changes: most of it is known
    reason = f"infrastructure: {attempt.reason}" if attempt.infrastructure else attempt.reason
    jobs.observe(
        member.job_id,
        MemberObserved(
            at_ms=now_ms(),
            actor=f"node:{node_id}",
            attempt=member.attempt,
            node=node_id,
            phase=phase,
            exit_code=attempt.exit_code if exited else None,
            reason=reason if exited else "",
        ),
    )
    if exited and jobs.mark_drained(attempt.attempt_id, node_id):
        clusters.touch([node_id])  # nothing of it is wanted any more: the agent may clean up


def _worker(deployment: session_pb2.DeploymentObserved) -> WorkerReport:
    return WorkerReport(
        deployment_id=deployment.deployment_id,
        state=session_pb2.DeploymentObserved.State.Name(deployment.state).lower(),
        bytes_done=deployment.bytes_done,
        bytes_total=deployment.bytes_total,
        chunks_done=deployment.chunks_done,
        rate_in=deployment.rate_in,
        rate_out=deployment.rate_out,
        source=deployment.source,
        error_code=deployment.error_code,
        error=deployment.error,
        retries=deployment.retries,
        distrusted=tuple(deployment.distrusted),
        store_bytes=deployment.store_bytes,
        held=tuple(deployment.held),
        refused_bytes=deployment.refused_bytes,
    )


def _activation(observed: session_pb2.ActivationObserved) -> ActivationReport:
    return ActivationReport(
        model=observed.model,
        version=observed.version,
        deployment_id=observed.deployment_id,
        revision=observed.revision,
        state=session_pb2.ActivationObserved.State.Name(observed.state).lower(),
        exit_code=observed.exit_code,
        output=observed.output,
        round=observed.round,
        check_exit_code=observed.check_exit_code,
        check_output=observed.check_output,
    )
