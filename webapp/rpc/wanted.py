"""Composes the whole wanted state of a node from its jobs, deployments and rollouts."""

import json
import logging
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from django.conf import settings
from django.db import transaction

from platform_core.datasets.access import Use
from platform_core.errors import TrainmasterError
from platform_core.jobs import spec as specification
from platform_core.jobs.kind import JobKind
from platform_core.jobs.spec import JobSpec, Strategy
from platform_core.loading.dropped import as_text
from platform_core.node.wanted import (
    ArtifactReference,
    AttemptWanted,
    DeploymentWanted,
    Launch,
    Wanted,
    WantedAction,
)
from platform_core.units import SECOND_MS
from webapp.accounts import queries as accounts
from webapp.artifacts import queries as artifacts
from webapp.artifacts import services as artifact_services
from webapp.checkpoints import queries as checkpoints
from webapp.datasets import queries as datasets
from webapp.datasets.services import hashing_on
from webapp.deployments import queries as deployments
from webapp.jobs import members as gangs
from webapp.jobs import profiles
from webapp.jobs import services as job_services
from webapp.jobs.members import MemberWanted
from webapp.nodes import queries as nodes
from webapp.nodes import services as node_services
from webapp.registry import queries as registry
from webapp.rollouts import queries as rollouts
from webapp.rpc.deliveries import delivery
from webapp.rpc.spares import ready_on
from webapp.serving.values import replica_token
from webapp.storage import queries as storage

log = logging.getLogger(__name__)

# As agents of 0.1.0 know it, which may stay connected during an upgrade; newer ones read both.
_NAMES_BEFORE = {Strategy.TORCHRUN: "ddp"}
_LAUNCH = [field.name for field in fields(Launch)]


def wanted_states(node_ids: Sequence[str]) -> list[Wanted]:
    """The wanted states of these nodes, in this order, read in one transaction with their revisions.

    An attempt whose order cannot be made is left out, and has ended with the reason; the others are not held up by it.
    """
    with transaction.atomic():
        revisions = nodes.wanted_revisions(node_ids)
        members = gangs.wanted_on(node_ids)
        orders = checkpoints.orders_of(member.job_id for its in members.values() for member in its)
        ready = ready_on(node_ids)
        parts = deployments.wanted_on(node_ids, rollouts.versions_in_use(node_ids))
        active = rollouts.wanted_on(node_ids)
        mends, hashing = storage.mends_on(node_ids), hashing_on(node_ids)
        failures: list[job_services.Unstartable] = []
        states = [
            Wanted(
                revision=revisions[node],
                attempts=tuple(
                    order
                    for member in members[node]
                    if (order := _attempt(node, member, orders.get(member.job_id, (0, 0)), failures))
                ),
                deployments=(*map(_signed, parts[node]), *ready.get(node, ())),
                activations=tuple(active[node]),
                mends=mends[node],
                hashing=hashing[node],
            )
            for node in node_ids
        ]
        states = _with_profiles(states)
        if settings.COLD_STORE_URL:
            artifact_services.note_use({manifest for state in states for manifest in _manifests_in(state)})
    job_services.declare_unstartable(failures)
    return states


def _with_profiles(states: Sequence[Wanted]) -> list[Wanted]:
    orders = profiles.ordered([attempt.attempt_id for state in states for attempt in state.attempts])
    return [
        replace(
            state,
            attempts=tuple(
                replace(attempt, profiles=orders.get(attempt.attempt_id, ())) for attempt in state.attempts
            ),
        )
        for state in states
    ]


def manifests(requests: Sequence[tuple[str, str]]) -> list[bytes | None]:
    """(node, manifest id) → the manifest as JSON, in this order; None where it is not wanted of that node now."""
    node_ids = list(dict.fromkeys(node for node, _ in requests))
    wanted = {
        node: _manifests_in(state) for node, state in zip(node_ids, wanted_states(node_ids), strict=True)
    }
    return [
        artifacts.manifest_json(manifest_id) if manifest_id in wanted[node] else None
        for node, manifest_id in requests
    ]


def _manifests_in(state: Wanted) -> set[str]:
    launches = [attempt.launch for attempt in state.attempts if attempt.launch]
    references = [
        part for launch in launches for part in (launch.code, launch.dataset, launch.resume, launch.model)
    ]
    references += [deployment.artifact for deployment in state.deployments]
    references += [mend.artifact for mend in state.mends]
    return {reference.manifest_id for reference in references if reference} - {""}


def _signed(deployment: DeploymentWanted) -> DeploymentWanted:
    """Signs the manifest's id, which stands for every digest of every piece."""
    signature = node_services.node_authority().sign(deployment.artifact.manifest_id)
    return replace(deployment, signature=signature)


def _attempt(
    node: str, member: MemberWanted, orders: tuple[int, int], failures: list[job_services.Unstartable]
) -> AttemptWanted | None:
    """None for one that has not begun and cannot; what has begun goes on without its order being made again."""
    action = WantedAction.STOP if member.stopping else WantedAction.RUN
    grace_seconds = -(-member.stop_grace_ms // SECOND_MS)
    save_order, interval_ms = orders
    wanted = AttemptWanted(
        member.attempt_id, action, grace_seconds, save_order=save_order, checkpoint_interval_ms=interval_ms,
        stop_deadline_ms=member.stop_deadline_ms, stop_reason=member.stop_reason if member.stopping else "",
        stacks_order=member.stacks_order,
    )  # fmt: skip
    if member.stopping:
        return wanted
    try:
        return replace(wanted, launch=_launch(node, member, specification.load(member.spec)))
    except (TrainmasterError, ValueError, TypeError, KeyError) as error:
        log.warning("the order for %s on %s cannot be made: %s", member.attempt_id, node, error)
        if not member.begun:
            why = error.sentence if isinstance(error, TrainmasterError) else "its description cannot be read"
            failures.append(
                job_services.Unstartable(node, member.job_id, member.attempt_id, member.attempt, why)
            )
            return None
    return wanted


def _launch(node: str, member: MemberWanted, spec: JobSpec) -> Launch:
    """Takes each field of the launch from the spec or the member under its name, and resolves ids and secrets."""
    checkpoint = member.resume_checkpoint
    dataset = _dataset(member, spec) if spec.dataset else None
    return Launch(
        **{
            **_like(spec),
            **_like(member),
            "environment": _environment(member.team, spec),
            "secrets": _secrets(member, spec),
            "strategy": _NAMES_BEFORE.get(spec.strategy, spec.strategy.value),
            "slots": tuple(sorted(member.slots)),
            "hyperparameters_json": json.dumps(dict(spec.hyperparameters)),
            "checkpoint_upload_url": f"{settings.STORE_URL}/checkpoint/{member.job_id}",
            "code": artifacts.reference(spec.code) if spec.code else None,
            "dataset": dataset,
            "delivery": delivery(dataset, node, member.gang) if dataset and _is_copied(spec) else None,
            "model": registry.files_of(member.team, spec.model) if spec.model else None,
            "resume": checkpoints.reference(checkpoint) if checkpoint else None,
        }
    )


def _is_copied(spec: JobSpec) -> bool:
    """Whether all of the dataset is on a node before the command starts."""
    return not spec.mount_dataset and not spec.stream_dataset


def _dataset(member: MemberWanted, spec: JobSpec) -> ArtifactReference:
    """Refused where the use is not approved any more: a grant may have expired since the job was submitted."""
    use = Use(member.team, spec.project, spec.purpose)
    return datasets.reference_for(spec.dataset, use, in_place=spec.mount_dataset)


def _environment(team: str, spec: JobSpec) -> tuple[tuple[str, str], ...]:
    """The job's own, what people have dropped from its dataset, and what its serving target asks. Raises not_found."""
    environment = list(spec.environment)
    if dropped := as_text(datasets.dropped(spec.dataset)) if spec.dataset else "":
        environment.append(("TRAINMASTER_DATA_DROPPED", dropped))
    if spec.serving_target:
        asked = registry.serving_constraints(team, spec.serving_target)
        if asked is None:
            raise TrainmasterError("not_found", what=f"serving target {spec.serving_target} in team {team}")
        environment.append(("TRAINMASTER_SERVING_CONSTRAINTS", json.dumps(asked)))
    return tuple(environment)


def _secrets(member: MemberWanted, spec: JobSpec) -> tuple[tuple[str, str], ...]:
    """The team's, and of a service what it asks of its callers."""
    secrets = accounts.secret_values(member.team, spec.secrets)
    if spec.kind is JobKind.SERVICE:
        secrets["TRAINMASTER_REPLICA_TOKEN"] = replica_token(member.job_id)
    return tuple(sorted(secrets.items()))


def _like(source: JobSpec | MemberWanted) -> dict[str, Any]:
    return {name: getattr(source, name) for name in _LAUNCH if hasattr(source, name)}
