"""The verbs of a deployment: begin, take what the nodes report, cancel, and give up on nodes that are lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.db.models import F

from platform_core.distribution import deployment as core
from platform_core.distribution.deployment import DeploymentState, WorkerState
from platform_core.distribution.planners.routes import Place
from platform_core.distribution.sharing import USUAL_WEIGHT
from platform_core.errors import IllegalTransition, TrainmasterError
from webapp.accounts import permissions
from webapp.accounts import queries as accounts
from webapp.accounts.permissions import Actor
from webapp.clusters import queries as cluster_queries
from webapp.clusters import services as clusters
from webapp.deployments import mapping
from webapp.deployments.delivery import planning, seating, sharing
from webapp.deployments.delivery.planning import Plan
from webapp.deployments.models import Deployment, Worker
from webapp.deployments.rollout import switching
from webapp.deployments.values import ActivationReport, Manner, WorkerReport
from webapp.live import services as live
from webapp.live.identity import new_id, now_ms
from webapp.registry import queries as registry
from webapp.registry import services as registry_services

if TYPE_CHECKING:
    from webapp.registry.models import ModelVersion


PREHEAT_PRIORITY = 1  # of 10 that others have: nobody waits for it


def create(
    actor: Actor, model_id: str, version: int, *, target_workers: Sequence[str] = (), source_url: str = "",
    manner: Manner = Manner(),
) -> Deployment:  # fmt: skip
    """Bring a model version to these nodes (ids or hostnames); none named means every ready node.

    `source_url` is another place where the very same bytes lie; each piece is verified whatever it is.
    """
    found, places = what_and_where(actor, model_id, version, target_workers)
    assert found.manifest is not None, "a version that is ready has one"
    if source_url:
        registry_services.check_source(source_url)
    document = found.manifest.document
    size, piece = found.manifest.total_bytes, document["piece_size"]
    planned = planning.plan(places, size, piece, manner.strategy, manner.rate_cap)
    seated = {
        seat.node for seat in planned.forest.seats
    }  # those with an agent, which alone can switch a version
    able = [place for place in places if place.node in seated]
    rollout = switching.planned(manner, len(able))
    with transaction.atomic():
        row = _begin(actor, found, planned, source_url or found.manifest.source_url, manner)
        if rollout is not None:
            switching.begin(actor, row, rollout, able)
        return row


def what_and_where(
    actor: Actor, model_id: str, version: int, target_workers: Sequence[str]
) -> tuple[ModelVersion, Sequence[Place]]:
    """A version that can be deployed by this actor, and the nodes it would go to."""
    found = registry.find_version(model_id, version, actor.sees)
    if found is None:
        raise TrainmasterError("not_found", what=f"version {version} of model {model_id}")
    permissions.require(actor, "deployment.create", found.model.team_id)
    if found.state != "ready" or found.manifest is None:
        why = found.error or f"it is {found.state}; wait until its manifest is made"
        raise TrainmasterError("request_invalid", what=f"version {version} of {model_id}", why=why)
    places = cluster_queries.places(target_workers)
    if not places:
        raise TrainmasterError(
            "request_invalid", what="target_workers", why="no node is ready; see the nodes page"
        )
    return found, places


def _begin(actor: Actor, version: ModelVersion, planned: Plan, source_url: str, manner: Manner) -> Deployment:
    manifest = version.manifest
    assert manifest is not None, "checked by the caller"
    seats, lanes = planned.forest.seats, seating.lanes(planned.forest)
    priority = manner.priority or (PREHEAT_PRIORITY if manner.preheat else USUAL_WEIGHT)
    sharing.check(priority, manner.rate_cap)
    row = Deployment.objects.create(
        id=new_id("dep"),
        team_id=version.model.team_id,
        user_id=accounts.user_key(actor.username),
        model_version=version,
        source_url=source_url,
        state=DeploymentState.INIT,
        strategy=planned.strategy,
        preheat=manner.preheat,
        pinned=manner.pin,
        estimates=[mapping.estimate_document(each) for each in planned.estimates],
        estimated_ms=planned.chosen.time_ms,
        bound_ms=planned.bound_ms,
        created_ms=now_ms(),
        priority=priority,
        rate_cap=manner.rate_cap,
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
    _tell(row, "DeploymentCreated", actor.name, cause)
    return row


def report(node_id: str, said: WorkerReport) -> None:
    """An agent told how far its part is. Numbers that only show progress are written without waking the machine."""
    with transaction.atomic():
        row = Deployment.objects.select_for_update(of=("self",)).filter(id=said.deployment_id).first()
        worker = Worker.objects.filter(deployment=said.deployment_id, node=node_id).first()
        if row is None or worker is None:
            return
        now = now_ms()
        Worker.objects.filter(id=worker.id).update(
            chunks_done=said.chunks_done, rate_in=said.rate_in, rate_out=said.rate_out, source=said.source,
            retries=max(worker.retries, said.retries), held=said.held, seen_ms=now,
            store_bytes=max(worker.store_bytes, said.store_bytes),
            refused_bytes=max(worker.refused_bytes, said.refused_bytes),
            moved_bytes=worker.moved_bytes + max(0, said.bytes_done - worker.bytes_done),
        )  # fmt: skip
        _name_distrusted(row, worker, said.distrusted)
        if said.retries > worker.retries and said.error:
            Worker.objects.filter(id=worker.id).update(trouble=cluster_queries.with_hostnames(said.error))
        _show_chunks(worker, said)
        verifying = said.state == "verifying"
        event = core.WorkerReported(
            node=node_id,
            state=WorkerState.RECEIVING if verifying else WorkerState(said.state),
            bytes_done=said.bytes_done,
            at_ms=now,
            actor=f"node:{node_id}",
            cause=said.error,
            verifying=verifying,
            from_peer=said.source not in ("", "store"),
            error_code=said.error_code,
            error=said.error,
        )
        _step(row, event)


def _show_chunks(worker: Worker, said: WorkerReport) -> None:
    """What changed of the map of chunks, for those who look at it: a few numbers, not the map."""
    before, after = (int.from_bytes(bits, "little") for bits in (worker.chunks_done, said.chunks_done))
    if before == after and worker.state == said.state:
        return
    fresh = [number for number in range(after.bit_length()) if (after & ~before) >> number & 1]
    change = {"map": "read again"} if before & ~after else {"chunks": [[worker.position, said.state, fresh]]}
    live.publish(f"progress:{worker.deployment_id}", change)


def observe_activations(node_id: str, reports: Sequence[ActivationReport]) -> None:
    """Everything that an agent has made active."""
    switching.observe(node_id, reports)


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
        _step(
            row,
            core.CancelRequested(
                at_ms=now_ms(), actor=actor.name, cause="cancelled in the browser or over REST"
            ),
        )
        return row


def retry(actor: Actor, deployment_id: str) -> None:
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
        _step(row, core.RetryRequested(at_ms=now_ms(), actor=actor.name, cause="retry"))
        switching.retry(actor, row)


def node_lost(row: Deployment, node_id: str) -> None:
    """Inside the caller's transaction, which holds the row. The worker counts as failed, so that the deployment ends;
    it resumes when the node is back."""
    done = Worker.objects.get(deployment=row, node=node_id).bytes_done
    sentence = "The node is lost; it will fetch the rest when it is back."
    event = core.WorkerReported(
        node=node_id, state=WorkerState.FAILED, bytes_done=done, at_ms=now_ms(), actor="system",
        cause=sentence, error_code="node_unknown", error=sentence,
    )  # fmt: skip
    _step(row, event)


def _step(row: Deployment, event: core.Event) -> None:
    """Advance by one event inside the caller's transaction, which holds the row."""
    workers = list(Worker.objects.filter(deployment=row).order_by("position"))
    before = mapping.deployment_value(row, workers)
    try:
        result = core.advance(before, event)
    except IllegalTransition:
        if isinstance(event, core.WorkerReported):
            return  # a late word of a worker
        raise
    after = result.deployment
    if after == before:
        live.publish(f"progress:{row.id}")
        return
    Deployment.objects.filter(id=row.id, version=before.version).update(**_columns(after))
    changed = [(w, b, a) for w, b, a in zip(workers, before.workers, after.workers, strict=True) if a != b]
    for worker, _, value in changed:
        Worker.objects.filter(id=worker.id).update(**mapping.worker_columns(value))
    for effect in result.effects:
        if isinstance(effect, core.TellWorkers):
            if isinstance(event, core.RetryRequested):  # else the node would wait for its own next try
                Worker.objects.filter(deployment=row, node__in=effect.nodes).update(retry=F("retry") + 1)
            clusters.touch(list(effect.nodes))
    if any(seating.GONE & {old.state, new.state} for _, old, new in changed):
        seating.reseat(row)
    _keep(row, event, before, after, [(b, a) for _, b, a in changed])
    stand = [new.node for _, old, new in changed if _stands(old) != _stands(new)]
    if stand or after.state is DeploymentState.CANCELLED:
        switching.follow(row, stand)


def _stands(worker: core.Worker) -> tuple[WorkerState, bool]:
    """What counts for whether it can run the version."""
    return worker.state, worker.bytes_done < worker.bytes_total


def _name_distrusted(row: Deployment, worker: Worker, names: Sequence[str]) -> None:
    """Once for each sender, for those who will want to look at its disk and memory."""
    new = [name for name in names if name not in worker.distrusted]
    if not new:
        return
    Worker.objects.filter(id=worker.id).update(distrusted=[*worker.distrusted, *new])
    receiver = cluster_queries.with_hostnames(worker.node_id)
    for name in new:
        sender = "The store" if name == "store" else cluster_queries.with_hostnames(name)
        cause = f"{sender} sent {receiver} bytes with another SHA-256; thrown away and fetched elsewhere"
        _tell(row, "DamagedBytesRefused", f"node:{worker.node_id}", cause)


def _columns(after: core.Deployment) -> dict[str, Any]:
    return mapping.deployment_columns(after) | {"reason": cluster_queries.with_hostnames(after.reason)}


def _keep(
    row: Deployment, event: core.Event, before: core.Deployment, after: core.Deployment,
    changed: Sequence[tuple[core.Worker, core.Worker]],
) -> None:  # fmt: skip
    """Events for what a person would want to read: changes of state, not each megabyte."""
    told = False
    names = cluster_queries.hostnames([new.node for _, new in changed])
    for old, new in changed:
        if old.state != new.state and new.state is not WorkerState.IDLE:
            cause = f"{names[new.node]} is {new.state}" + (f": {new.error}" if new.error else "")
            _tell(row, f"Worker{new.state.title()}", event.actor, cause, event.at_ms)
            told = True
    if before.state != after.state:
        cause = cluster_queries.with_hostnames(after.reason) or core.DESCRIPTION[after.state]
        _tell(row, f"Deployment{after.state.title()}", event.actor, cause, event.at_ms)
        told = True
    if not told:
        live.publish(f"progress:{row.id}")


def _tell(row: Deployment, kind: str, actor: str, cause: str, at_ms: int | None = None) -> None:
    live.record(
        kind, f"deployment:{row.id}", actor=cluster_queries.with_hostnames(actor), team=row.team_id, cause=cause,
        at_ms=at_ms, data={"name": str(row.model_version)}, notify=(f"deployments:{row.team_id}",),
    )  # fmt: skip
