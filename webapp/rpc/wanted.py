"""A node's whole wanted state, put together from what jobs and deployments want of it."""

import json
import logging
from collections.abc import Sequence
from math import inf

from django.conf import settings
from django.db import transaction

from platform_core.distribution.deployments.sharing import Share
from platform_core.errors import TrainmasterError
from platform_core.jobs import spec as specification
from platform_core.jobs.spec import JobSpec
from platform_core.units import SECOND_MS
from trainmaster_wire.agent.v1 import session_pb2
from webapp.accounts import queries as accounts
from webapp.artifacts import queries as artifacts
from webapp.artifacts.values import ArtifactReference
from webapp.checkpoints import queries as checkpoints
from webapp.datasets import queries as datasets
from webapp.deployments import queries as deployments
from webapp.deployments.values import ActivationWanted, WorkerWanted
from webapp.jobs import queries as jobs
from webapp.jobs import services as job_services
from webapp.jobs.queries import MemberWanted
from webapp.nodes import queries as clusters
from webapp.nodes import services as cluster_services

log = logging.getLogger(__name__)


def wanted_states(node_ids: Sequence[str]) -> list[session_pb2.Wanted]:
    """In this order. Read in one transaction, so that the revisions belong to what is sent.

    An attempt whose order cannot be made is left out, and has ended with the reason; the others are not held up by it.
    """
    with transaction.atomic():
        revisions = clusters.wanted_revisions(node_ids)
        members = jobs.wanted_on(node_ids)
        parts = deployments.wanted_on_all(node_ids)
        active = deployments.activations_on_all(node_ids)
        failures: list[job_services.Unstartable] = []
        states = [
            session_pb2.Wanted(
                revision=revisions[node],
                attempts=[order for each in members[node] if (order := _attempt(node, each, failures))],
                deployments=[_deployment(each) for each in parts[node]],
                activations=[_activation(each) for each in active[node]],
            )
            for node in node_ids
        ]
    job_services.declare_unstartable(failures)
    return states


def manifests(asked: Sequence[tuple[str, str]]) -> list[bytes | None]:
    """What nodes ask for by id, as JSON, in this order; None for one that is not wanted of its node now."""
    nodes = list(dict.fromkeys(node for node, _ in asked))
    named = {node: _named(state) for node, state in zip(nodes, wanted_states(nodes), strict=True)}
    return [artifacts.manifest_json(each) if each in named[node] else None for node, each in asked]


def _named(state: session_pb2.Wanted) -> set[str]:
    launches = [attempt.launch for attempt in state.attempts]
    references = [each for launch in launches for each in (launch.code, launch.dataset, launch.resume)]
    references += [deployment.artifact for deployment in state.deployments]
    return {reference.manifest_id for reference in references} - {""}


def _deployment(worker: WorkerWanted) -> session_pb2.DeploymentWanted:
    return session_pb2.DeploymentWanted(
        deployment_id=worker.deployment_id,
        model=worker.model,
        version=worker.version,
        artifact=_reference(worker.artifact),
        peers=[session_pb2.Peer(node_id=p.node_id, address=p.address) for p in worker.peers],
        transfer_token=worker.transfer_token,
        lanes=[
            session_pb2.Lane(sources=lane, slower=number in worker.slower)
            for number, lane in enumerate(worker.lanes)
        ],
        retry=worker.retry,
        pinned=worker.pinned,
        preheat=worker.preheat,
        share=_share(worker.share),
        # Every digest of every piece is behind the id.
        signature=cluster_services.node_authority().sign(worker.artifact.manifest_id),
    )


def _activation(wanted: ActivationWanted) -> session_pb2.ActivationWanted:
    return session_pb2.ActivationWanted(
        model=wanted.model,
        version=wanted.version,
        deployment_id=wanted.deployment_id,
        revision=wanted.revision,
        hook=wanted.hook,
        health_check=wanted.health_check,
        round=wanted.round,
        command_seconds=wanted.command_seconds,
        previous_version=wanted.previous_version,
    )


def _attempt(
    node: str, member: MemberWanted, failures: list[job_services.Unstartable]
) -> session_pb2.AttemptWanted | None:
    """None for one that has not begun and cannot; what has begun goes on without its order being made again."""
    action = session_pb2.AttemptWanted.STOP if member.stopping else session_pb2.AttemptWanted.RUN
    wanted = session_pb2.AttemptWanted(
        attempt_id=member.attempt_id, action=action, grace_seconds=-(-member.stop_grace_ms // SECOND_MS)
    )
    if member.stopping:
        return wanted
    try:
        wanted.launch.CopyFrom(_launch(member, specification.parse(member.spec)))
    except (TrainmasterError, ValueError, TypeError, KeyError) as error:
        log.warning("the order for %s on %s cannot be made: %s", member.attempt_id, node, error)
        if not member.begun:
            why = error.sentence if isinstance(error, TrainmasterError) else "its description cannot be read"
            failures.append(
                job_services.Unstartable(node, member.job_id, member.attempt_id, member.attempt, why)
            )
            return None
    return wanted


def _launch(member: MemberWanted, spec: JobSpec) -> session_pb2.Launch:
    checkpoint = spec.checkpoint
    launch = session_pb2.Launch(
        job_id=member.job_id,
        job_name=member.job_name,
        team=member.team,
        attempt=member.attempt,
        command=list(spec.command),
        strategy=spec.strategy.value,
        container_image=spec.container_image,
        environment=dict(spec.environment),
        secrets=accounts.secret_values(member.team, spec.secrets),
        nodes=member.nodes,
        node_rank=member.node_rank,
        slots=list(member.slots),
        master_address=member.master_address,
        master_port=member.master_port,
        cpus_per_slot=spec.cpus_per_gpu,
        memory_per_slot_bytes=spec.memory_per_gpu_bytes,
        checkpoint_interval_steps=checkpoint.interval_steps,
        checkpoint_interval_seconds=checkpoint.interval_ms // 1000,
        checkpoint_keep_last=checkpoint.keep_last,
        checkpoint_path=checkpoint.path,
        hyperparameters_json=json.dumps(dict(spec.hyperparameters)),
        seed=spec.seed,
        checkpoint_upload_url=f"{settings.STORE_URL}/checkpoint/{member.job_id}",
    )
    if spec.code:
        launch.code.CopyFrom(_reference(artifacts.reference(spec.code)))
    if spec.dataset:
        launch.dataset.CopyFrom(_reference(datasets.snapshot_reference(spec.dataset)))
    if member.resume_checkpoint:
        launch.resume.CopyFrom(_reference(checkpoints.reference(member.resume_checkpoint)))
    return launch


def _share(share: Share) -> session_pb2.Share:
    cap, team_cap = (0 if limit == inf else int(limit) for limit in (share.cap, share.team_cap))
    return session_pb2.Share(weight=share.weight, cap=cap, team=share.team, team_cap=team_cap)


def _reference(reference: ArtifactReference) -> session_pb2.ArtifactReference:
    return session_pb2.ArtifactReference(
        manifest_id=reference.manifest_id, source_url=reference.source_url, etags=reference.etags
    )
