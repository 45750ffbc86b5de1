"""What agents tell of their parts: numbers are written as they come, all else goes through the machine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from django.db import transaction

from platform_core.distribution.deployments import deployment as core
from platform_core.distribution.deployments.deployment import DeploymentState, WorkerState
from platform_core.distribution.deployments.presence import began_anew
from platform_core.distribution.planning.forest import STORE
from platform_core.node.observed import DeploymentObserved, TransferState
from webapp.base.identity import now_ms
from webapp.base.rows import update_each
from webapp.deployments import mapping, stepping
from webapp.deployments.models import Deployment, Worker
from webapp.nodes import queries as cluster_queries
from webapp.sockets import services as sockets

_NUMBERS = (
    "bytes_done", "moved_bytes", "store_bytes", "refused_bytes", "chunks_done", "held", "rate_in", "rate_out",
    "source", "retries", "trouble", "distrusted", "seen_ms",
)  # fmt: skip

_SUMS = ("moved_bytes", "store_bytes", "refused_bytes", "retries")  # that a deployment keeps of its nodes

_AT_WORK = (TransferState.IDLE, TransferState.RECEIVING)


def report_all(reports: Sequence[tuple[str, DeploymentObserved]]) -> None:
    """In this order, in one transaction. A thousand nodes tell twice a second: those whose bytes alone have changed
    cost their own rows, not those of all the others."""
    now = now_ms()
    with transaction.atomic():
        rows = _held({report.deployment_id for _, report in reports})
        parts = _parts(rows, {node for node, _ in reports})
        heard: dict[int, Worker] = {}
        events: dict[str, list[core.WorkerReported]] = defaultdict(list)
        troubles: dict[int, str] = {}
        grown: dict[str, dict[str, int]] = {}
        for node, report in reports:
            if (part := parts.get((report.deployment_id, node))) is None:
                continue
            row, event = rows[report.deployment_id], _event(node, report, now)
            sockets.publish(f"progress:{row.id}", _chunks(part, report))
            if report.state in _AT_WORK and began_anew(part.held, report.held):
                _unseat(row, part.node_id, f"{part.node_id} has lost most of what it held")
            if report.retries > part.retries and report.error:
                troubles[part.id] = report.error
            _name_distrusted(row, part, report.distrusted)
            numbers_only = part.id not in heard and row.state != DeploymentState.CANCELLED
            done = core.counted(mapping.worker_value(part), event) if numbers_only else None
            if done is None:
                events[row.id].append(event)
            before = _sums(part)
            heard[part.id] = _noted(part, report, now, done)
            if (after := _sums(part)) != before:
                grown[row.id] = {
                    name: grown.get(row.id, _sums(row))[name] + after[name] - before[name] for name in _SUMS
                }
        for key, text in zip(troubles, cluster_queries.all_with_hostnames([*troubles.values()]), strict=True):
            heard[key].trouble = text
        update_each(
            Worker, {key: {name: getattr(part, name) for name in _NUMBERS} for key, part in heard.items()}
        )
        update_each(Deployment, grown)
        for deployment_id, happened in events.items():
            stepping.step(rows[deployment_id], happened)


def _held(ids: set[str]) -> dict[str, Deployment]:
    """Always in one order, so that two gateways do not wait for each other."""
    rows = Deployment.objects.select_for_update(of=("self",)).select_related("model_version__model")
    return {row.id: row for row in rows.filter(id__in=ids).order_by("id")}


def _parts(rows: dict[str, Deployment], nodes: set[str]) -> dict[tuple[str, str], Worker]:
    workers = Worker.objects.filter(deployment__in=rows, node__in=nodes).defer("lanes")
    return {(part.deployment_id, part.node_id): part for part in workers}


def _event(node: str, report: DeploymentObserved, now: int) -> core.WorkerReported:
    verifying = report.state is TransferState.VERIFYING
    return core.WorkerReported(
        node=node,
        state=WorkerState.RECEIVING if verifying else WorkerState(report.state),
        bytes_done=report.bytes_done,
        at_ms=now,
        actor=f"node:{node}",
        cause=report.error,
        verifying=verifying,
        from_peer=report.source not in ("", STORE),
        error_code=report.error_code,
        error=report.error,
    )


def _unseat(row: Deployment, node: str, why: str) -> None:
    """Who fed others and can no more gets the place of one who has just come, with the coordinator's next round."""
    Worker.objects.filter(deployment=row, node=node).update(seated=False)
    stepping.tell(row, "WorkerBeganAnew", f"node:{node}", f"{why}, and begins anew below the others")


def _noted(part: Worker, report: DeploymentObserved, now: int, done: int | None) -> Worker:
    part.moved_bytes += max(0, report.bytes_done - part.bytes_done)
    if done is not None:
        part.bytes_done = done
    part.chunks_done = report.chunks_done
    if report.held or report.state not in _AT_WORK:  # one that has yet to look tells none
        part.held = list(report.held)
    part.rate_in, part.rate_out, part.source = report.rate_in, report.rate_out, report.source
    part.retries = max(part.retries, report.retries)
    part.store_bytes = max(part.store_bytes, report.store_bytes)
    part.refused_bytes = max(part.refused_bytes, report.refused_bytes)
    part.seen_ms = now
    return part


def _sums(of: Worker | Deployment) -> dict[str, int]:
    return {name: getattr(of, name) for name in _SUMS}


def _chunks(part: Worker, report: DeploymentObserved) -> dict[str, Any]:
    """What changed of the map of chunks, for those who look at it: a few numbers, not the map."""
    before, after = (int.from_bytes(bits, "little") for bits in (part.chunks_done, report.chunks_done))
    if before == after and part.state == report.state:
        return {}
    if before & ~after:
        return {"map": "read again"}
    fresh = [number for number in range(after.bit_length()) if (after & ~before) >> number & 1]
    return {"chunks": [[part.position, report.state, fresh]]}


def _name_distrusted(row: Deployment, part: Worker, names: Sequence[str]) -> None:
    """Once for each sender, for those who will want to look at its disk and memory."""
    for name in [name for name in names if name not in part.distrusted]:
        part.distrusted = [*part.distrusted, name]
        sender = "The store" if name == "store" else name
        cause = f"{sender} sent {part.node_id} bytes with another SHA-256; thrown away and fetched elsewhere"
        stepping.tell(row, "DamagedBytesRefused", f"node:{part.node_id}", cause)
        others = Worker.objects.filter(deployment=row, distrusted__contains=[name]).exclude(id=part.id)
        if name != "store" and not others.exists():
            _unseat(row, name, f"{name} is not believed")
