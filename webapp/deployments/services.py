"""The verbs of a deployment: begin, take what the nodes report, cancel, and give up on nodes that are lost."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db import transaction

from platform_core.distribution.deployments import deployment as core
from platform_core.distribution.deployments.deployment import DeploymentState, WorkerState
from platform_core.distribution.deployments.sharing import USUAL_WEIGHT
from platform_core.distribution.planning.routes import Place
from platform_core.errors import TrainmasterError
from platform_core.node.observed import DeploymentObserved
from webapp.accounts import permissions
from webapp.accounts import queries as accounts
from webapp.accounts.permissions import Actor
from webapp.base.identity import new_id, now_ms
from webapp.deployments import mapping, stepping
from webapp.deployments.delivery import planning, reporting, seating, sharing
from webapp.deployments.delivery.planning import Plan
from webapp.deployments.models import Deployment, Worker
from webapp.deployments.values import Manner
from webapp.nodes import queries as cluster_queries
from webapp.nodes import services as clusters
from webapp.registry import queries as registry
from webapp.registry import services as registry_services

if TYPE_CHECKING:
    from webapp.registry.models import ModelVersion


PREHEAT_PRIORITY = 1  # of 10 that others have: nobody waits for it


@dataclass(frozen=True, slots=True)
class Prepared:
    """A deployment that is planned and not yet made. `places`: the nodes whose agents take part."""

    version: ModelVersion
    plan: Plan
    source_url: str
    manner: Manner
    places: tuple[Place, ...]


def create(
    actor: Actor, model_id: str, version: int, *, target_workers: Sequence[str] = (), source_url: str = "",
    manner: Manner = Manner(),
) -> Deployment:  # fmt: skip
    """Copies a model version to these nodes (ids or hostnames); none named means every ready node."""
    prepared = prepare(actor, model_id, version, target_workers, source_url, manner)
    with transaction.atomic():
        return begin(actor, prepared)


def prepare(
    actor: Actor, model_id: str, version: int, target_workers: Sequence[str], source_url: str, manner: Manner
) -> Prepared:
    """Plans a deployment; nothing is made.

    `source_url` is another place where the very same bytes lie; each piece is verified whatever it is.
    """
    model_version, places = what_and_where(actor, model_id, version, target_workers)
    assert model_version.manifest is not None, "a version that is ready has one"
    if source_url:
        source_url = registry_services.check_source(source_url)
    document = model_version.manifest.document
    size, piece = model_version.manifest.total_bytes, document["piece_size"]
    cap = sharing.least_cap(model_version.model.team_id, manner.rate_cap)
    planned = planning.plan(places, size, piece, manner.strategy, cap)
    seated = {seat.node for seat in planned.forest.seats}
    with_agent = tuple(place for place in places if place.node in seated)
    return Prepared(
        model_version, planned, source_url or model_version.manifest.source_url, manner, with_agent
    )


def what_and_where(
    actor: Actor, model_id: str, version: int, target_workers: Sequence[str]
) -> tuple[ModelVersion, Sequence[Place]]:
    """A version that can be deployed by this actor, and the nodes it would go to."""
    model_version = registry.find_version(model_id, version, actor.sees)
    if model_version is None:
        raise TrainmasterError("not_found", what=f"version {version} of model {model_id}")
    permissions.require(actor, "deployment.create", model_version.model.team_id)
    if model_version.state != "ready" or model_version.manifest is None:
        why = model_version.error or f"it is {model_version.state}; wait until its manifest is made"
        raise TrainmasterError("request_invalid", what=f"version {version} of {model_id}", why=why)
    registry_services.require_proven(model_version, "be deployed")
    places = cluster_queries.places(target_workers)
    if not places:
        raise TrainmasterError(
            "request_invalid", what="target_workers", why="no node is ready; see the nodes page"
        )
    return model_version, places


def begin(actor: Actor, prepared: Prepared) -> Deployment:
    """Makes a planned deployment, inside the caller's transaction."""
    version, planned, manner = prepared.version, prepared.plan, prepared.manner
    manifest = version.manifest
    assert manifest is not None, "a version that is ready has one"
    seats, lanes = planned.forest.seats, seating.lanes(planned.forest)
    priority = manner.priority or (PREHEAT_PRIORITY if manner.preheat else USUAL_WEIGHT)
    sharing.check(priority, manner.rate_cap)
    row = Deployment.objects.create(
        id=new_id("dep"),
        team_id=version.model.team_id,
        user_id=accounts.user_key(actor.username),
        model_version=version,
        source_url=prepared.source_url,
        state=DeploymentState.INIT,
        strategy=planned.strategy,
        preheat=manner.preheat,
        pinned=manner.pin,
        estimates=[mapping.estimate_document(estimate) for estimate in planned.estimates],
        estimated_ms=planned.chosen.time_ms,
        estimated_low_ms=planned.low_ms,
        estimated_high_ms=planned.high_ms,
        estimate_basis=planned.basis,
        bound_ms=planned.bound_ms,
        created_ms=now_ms(),
        priority=priority,
        rate_cap=manner.rate_cap,
        node_states={WorkerState.IDLE: len(seats) + len(planned.alone)},
    )
    Worker.objects.bulk_create(
        Worker(
            deployment=row, node_id=seat.node, position=position, lanes=lanes[seat.node],
            state=WorkerState.IDLE, bytes_total=manifest.total_bytes,
        )
        for position, seat in enumerate(seats)
    )  # fmt: skip
    Worker.objects.bulk_create(
        Worker(
            deployment=row, node_id=place.node, position=position, seated=False, state=WorkerState.IDLE,
            bytes_total=manifest.total_bytes,
        )
        for position, place in enumerate(planned.alone, len(seats))
    )  # fmt: skip
    clusters.touch([seat.node for seat in seats])
    nodes = len(seats) + len(planned.alone)
    cause = f"{version.model} version {version.version} to {nodes} nodes, by {planned.strategy}"
    stepping.tell(row, "DeploymentCreated", actor.name, cause)
    return row


def report(node_id: str, observed: DeploymentObserved) -> None:
    """Takes how far one node is."""
    report_all([(node_id, observed)])


def report_all(reports: Sequence[tuple[str, DeploymentObserved]]) -> None:
    """What many agents told of their parts, in this order, in one transaction."""
    if reports:
        reporting.report_all(reports)


def cancel(actor: Actor, deployment_id: str) -> Deployment:
    with transaction.atomic():
        row = (
            Deployment.objects.select_for_update(of=("self",))
            .select_related("user")
            .filter(id=deployment_id)
            .first()
        )
        if row is None:
            raise TrainmasterError("not_found", what=f"deployment {deployment_id}")
        permissions.require(
            actor,
            "deployment.cancel",
            row.team_id,
            owner=row.user.username,
            what=f"deployment {deployment_id}",
        )
        cause = "cancelled in the browser or over REST"
        stepping.step(row, [core.CancelRequested(at_ms=now_ms(), actor=actor.name, cause=cause)])
        return row


def retry(actor: Actor, deployment_id: str) -> Deployment:
    """Failed workers try again; what they hold already is not sent twice."""
    with transaction.atomic():
        row = (
            Deployment.objects.select_for_update(of=("self",))
            .select_related("user")
            .filter(id=deployment_id)
            .first()
        )
        if row is None:
            raise TrainmasterError("not_found", what=f"deployment {deployment_id}")
        permissions.require(actor, "deployment.create", row.team_id, what=f"deployment {deployment_id}")
        stepping.step(row, [core.RetryRequested(at_ms=now_ms(), actor=actor.name, cause="retry")])
        return row


def nodes_lost(row: Deployment, nodes: Collection[str]) -> None:
    """Inside the caller's transaction, which holds the row. Their parts count as failed, so that the deployment ends;
    they resume when the nodes are back."""
    done = dict(Worker.objects.filter(deployment=row, node__in=nodes).values_list("node_id", "bytes_done"))
    sentence, now = "The node is lost; it will fetch the rest when it is back.", now_ms()
    lost = [
        core.WorkerReported(
            node=node, state=WorkerState.FAILED, bytes_done=done[node], at_ms=now, actor="system",
            cause=sentence, error_code="node_unknown", error=sentence,
        )
        for node in nodes
    ]  # fmt: skip
    stepping.step(row, lost)
