"""Protobuf messages to values and back; nothing is decided here."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from agent.observed import (
    ActivationObserved,
    ActivationPhase,
    AttemptObserved,
    DeploymentObserved,
    DeploymentPhase,
    Observed,
    Phase,
)
from agent.wanted import (
    ActivationWanted,
    Artifact,
    AttemptWanted,
    DeploymentWanted,
    Launch,
    Pairs,
    Peer,
    Wanted,
    WantedAction,
)
from platform_core.distribution.deployments.sharing import USUAL_WEIGHT, Share
from platform_core.jobs.job import EndKind
from trainmaster_wire.agent.v1 import session_pb2 as pb

_ACTIONS = {pb.AttemptWanted.RUN: WantedAction.RUN, pb.AttemptWanted.STOP: WantedAction.STOP}
_PHASES = {
    Phase.PREPARING: pb.AttemptObserved.PREPARING,
    Phase.RUNNING: pb.AttemptObserved.RUNNING,
    Phase.EXITED: pb.AttemptObserved.EXITED,
}
_ENDS = {
    EndKind.SCRIPT: pb.AttemptObserved.SCRIPT,
    EndKind.OUT_OF_MEMORY: pb.AttemptObserved.OUT_OF_MEMORY,
    EndKind.INFRASTRUCTURE: pb.AttemptObserved.INFRASTRUCTURE,
    EndKind.STOPPED: pb.AttemptObserved.STOPPED,
}
_DEPLOYMENT_PHASES = {
    DeploymentPhase.IDLE: pb.DeploymentObserved.IDLE,
    DeploymentPhase.RECEIVING: pb.DeploymentObserved.RECEIVING,
    DeploymentPhase.VERIFYING: pb.DeploymentObserved.VERIFYING,
    DeploymentPhase.COMPLETE: pb.DeploymentObserved.COMPLETE,
    DeploymentPhase.FAILED: pb.DeploymentObserved.FAILED,
    DeploymentPhase.EVICTED: pb.DeploymentObserved.EVICTED,
}

_ACTIVATION_PHASES = {
    ActivationPhase.SWITCHING: pb.ActivationObserved.SWITCHING,
    ActivationPhase.ACTIVE: pb.ActivationObserved.ACTIVE,
    ActivationPhase.FAILED: pb.ActivationObserved.FAILED,
}


def wanted_from(message: pb.Wanted) -> Wanted:
    """An attempt whose action this version does not know is left out, which stops it: the safe side."""
    return Wanted(
        revision=message.revision,
        attempts=tuple(_attempt(each) for each in message.attempts if each.action in _ACTIONS),
        deployments=tuple(_deployment(each) for each in message.deployments),
        activations=tuple(_activation(each) for each in message.activations),
    )


def _attempt(message: pb.AttemptWanted) -> AttemptWanted:
    return AttemptWanted(
        attempt_id=message.attempt_id,
        action=_ACTIONS[message.action],
        grace_seconds=message.grace_seconds,
        launch=_launch(message.launch) if message.HasField("launch") else None,
    )


def _launch(message: pb.Launch) -> Launch:
    return Launch(
        job_id=message.job_id,
        job_name=message.job_name,
        attempt=message.attempt,
        command=tuple(message.command),
        strategy=message.strategy,
        container_image=message.container_image,
        environment=_pairs(message.environment),
        secrets=_pairs(message.secrets),
        nodes=max(1, message.nodes),
        node_rank=message.node_rank,
        slots=tuple(sorted(message.slots)),
        master_address=message.master_address,
        master_port=message.master_port,
        cpus_per_slot=message.cpus_per_slot,
        memory_per_slot_bytes=message.memory_per_slot_bytes,
        code=_artifact(message.code),
        dataset=_artifact(message.dataset),
        resume=_artifact(message.resume),
        checkpoint_interval_steps=message.checkpoint_interval_steps,
        checkpoint_interval_seconds=message.checkpoint_interval_seconds,
        checkpoint_keep_last=message.checkpoint_keep_last,
        checkpoint_path=message.checkpoint_path,
        hyperparameters_json=message.hyperparameters_json,
        seed=message.seed if message.HasField("seed") else None,
        checkpoint_upload_url=message.checkpoint_upload_url,
        team=message.team,
    )


def _pairs(mapping: Mapping[str, str]) -> Pairs:
    return tuple(sorted(mapping.items()))


def _artifact(message: pb.ArtifactReference) -> Artifact | None:
    if not message.manifest_id:
        return None
    return Artifact(message.manifest_id, message.source_url, tuple(message.etags))


def _share(message: pb.Share) -> Share:
    return Share(message.weight or USUAL_WEIGHT, message.cap or inf, message.team, message.team_cap or inf)


def _deployment(message: pb.DeploymentWanted) -> DeploymentWanted:
    artifact = message.artifact
    return DeploymentWanted(
        deployment_id=message.deployment_id,
        model=message.model,
        version=message.version,
        artifact=Artifact(artifact.manifest_id, artifact.source_url, tuple(artifact.etags)),
        peers=tuple(Peer(peer.node_id, peer.address) for peer in message.peers),
        transfer_token=message.transfer_token,
        lanes=tuple(tuple(lane.sources) for lane in message.lanes),
        slower=frozenset(number for number, lane in enumerate(message.lanes) if lane.slower),
        retry=message.retry,
        share=_share(message.share),
        signature=message.signature,
        pinned=message.pinned,
        preheat=message.preheat,
    )


def observed_to(observed: Observed) -> pb.Observed:
    return pb.Observed(
        attempts=[_attempt_observed(attempt) for attempt in observed.attempts],
        deployments=[_deployment_observed(deployment) for deployment in observed.deployments],
        activations=[_activation_observed(activation) for activation in observed.activations],
    )


def _attempt_observed(attempt: AttemptObserved) -> pb.AttemptObserved:
    return pb.AttemptObserved(
        attempt_id=attempt.attempt_id,
        phase=_PHASES[attempt.phase],
        exit_code=attempt.exit_code,
        reason=attempt.reason,
        end=_ENDS[attempt.end],
        uplink_drained=attempt.uplink_drained,
        resume_damaged=attempt.resume_damaged,
    )


def _deployment_observed(deployment: DeploymentObserved) -> pb.DeploymentObserved:
    return pb.DeploymentObserved(
        deployment_id=deployment.deployment_id,
        state=_DEPLOYMENT_PHASES[deployment.phase],
        bytes_done=deployment.bytes_done,
        bytes_total=deployment.bytes_total,
        chunks_done=deployment.chunks_done,
        rate_in=deployment.rate_in,
        rate_out=deployment.rate_out,
        source=deployment.source,
        error_code=deployment.error_code,
        error=deployment.error,
        retries=deployment.retries,
        distrusted=deployment.distrusted,
        store_bytes=deployment.store_bytes,
        held=deployment.held,
        refused_bytes=deployment.refused_bytes,
    )


def _activation(message: pb.ActivationWanted) -> ActivationWanted:
    return ActivationWanted(
        model=message.model,
        version=message.version,
        deployment_id=message.deployment_id,
        revision=message.revision,
        hook=message.hook,
        health_check=message.health_check,
        round=message.round,
        command_seconds=message.command_seconds,
        previous_version=message.previous_version,
    )


def _activation_observed(activation: ActivationObserved) -> pb.ActivationObserved:
    return pb.ActivationObserved(
        model=activation.model,
        version=activation.version,
        deployment_id=activation.deployment_id,
        revision=activation.revision,
        state=_ACTIVATION_PHASES[activation.phase],
        exit_code=activation.exit_code,
        output=activation.output,
        round=activation.round,
        check_exit_code=activation.check_exit_code,
        check_output=activation.check_output,
    )
