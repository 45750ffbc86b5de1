"""A deployment in words and numbers: the answer first, then the slowest node."""

from collections.abc import Sequence
from math import inf
from typing import Any

from django.conf import settings

from platform_core.distribution.deployments.deployment import (
    ACTIVE,
    DESCRIPTION,
    DeploymentState,
    WorkerState,
)
from platform_core.distribution.deployments.history import LEAST_BOUND_MS, times_the_bound
from platform_core.distribution.deployments.progress import Progress, progress, remaining_ms
from platform_core.distribution.deployments.sharing import USUAL_WEIGHT
from platform_core.units import format_bytes, format_duration_ms, format_number
from webapp.deployments.delivery.sharing import least_cap, share_of
from webapp.deployments.mapping import deployment_value, estimate_value
from webapp.deployments.models import Deployment, Worker
from webapp.deployments.queries import shown_state
from webapp.pages.deployments import movement, rollout, topology

HEARD_MS = 10_000  # what an agent said longer ago is no rate any more
_HAD_ALL = (WorkerState.COMPLETE, WorkerState.EVICTED)
_PHASES = ("init", "downloading", "distributing", "verifying", "complete")


def head(row: Deployment, workers: Sequence[Worker]) -> dict[str, Any]:
    manifest = row.model_version.manifest
    document = manifest.document if manifest else {"chunks": []}
    return {
        "id": row.id,
        "model": row.model_version.model.name,
        "version": row.model_version.version,
        "team": row.team_id,
        "state": shown_state(row, progress(deployment_value(row, workers))),
        "preheat": row.preheat,
        "pinned": row.pinned,
        "user": row.user.username,
        "bytes": manifest.total_bytes if manifest else 0,
        "chunks": len(document["chunks"]),
        "pieces": sum(len(chunk["pieces"]) for chunk in document["chunks"]),
        "strategy": row.strategy,
        "share": _share(row),
        "started_ms": row.started_ms or row.created_ms,
        "estimates": [estimate_value(each) for each in row.estimates],
    }


def _share(row: Deployment) -> list[str]:
    """What it may take of the nodes' links, where that is not as usual."""
    limits, share = [], share_of(row)
    if share.weight != USUAL_WEIGHT:
        limits.append(f"priority {share.weight} of the usual {USUAL_WEIGHT}")
    if share.cap < inf:
        limits.append(f"at most {format_bytes(int(share.cap))}/s on each node")
    if share.team_cap < inf:
        limits.append(f"the team at most {format_bytes(int(share.team_cap))}/s")
    return limits


def answer(row: Deployment, workers: Sequence[Worker], now_ms: int) -> dict[str, str]:
    reached = progress(deployment_value(row, workers))
    took = format_duration_ms((row.finished_ms or now_ms) - (row.started_ms or row.created_ms))
    if row.state == DeploymentState.COMPLETE and reached.workers_evicted:
        return _given_up(reached, workers)
    if row.state == DeploymentState.COMPLETE:
        tone = "wait" if reached.workers_failed else "ok"
        headline = f"Ready on {reached.workers_complete} of {reached.workers} nodes after {took}"
        return {
            "tone": tone,
            "headline": headline,
            "detail": row.reason or "The SHA-256 matches on every node.",
        }
    if row.state == DeploymentState.FAILED:
        return {
            "tone": "bad",
            "headline": f"Failed after {took}",
            "detail": f"{row.reason.rstrip('.')}. Fix the cause, then retry.",
        }
    if row.state == DeploymentState.CANCELLED:
        return {"tone": "off", "headline": "Cancelled", "detail": row.reason}
    left = max((ms for worker in workers if (ms := _left_ms(worker, now_ms)) is not None), default=None)
    estimate = f"Estimated before the start: {_at_least_a_second(row.estimated_ms)}."
    headline = f"Ready in about {format_duration_ms(left)}" if left is not None else "Starting"
    return {
        "tone": "run",
        "headline": headline,
        "detail": f"{DESCRIPTION[DeploymentState(row.state)]} {estimate}",
    }


def _given_up(reached: Progress, workers: Sequence[Worker]) -> dict[str, str]:
    why = next(worker.error for worker in workers if worker.state == WorkerState.EVICTED)
    left = (
        f"Still on {reached.workers_complete} of {reached.workers} nodes"
        if reached.workers_complete
        else "On no node"
    )
    gone = f"evicted from {reached.workers_evicted} to free disk space"
    if reached.workers_failed:
        gone += f", {reached.workers_failed} failed"
    return {
        "tone": "wait" if reached.workers_complete else "off",
        "headline": f"{left}: {gone}",
        "detail": f"{why}. Fetch it again; pin it to keep it.",
    }


def phases(row: Deployment, workers: Sequence[Worker]) -> list[dict[str, Any]]:
    reached_now = progress(deployment_value(row, workers))
    ended_badly = row.state in (DeploymentState.FAILED, DeploymentState.CANCELLED)
    reached = _PHASES.index(row.state if row.state in _PHASES else _ended_in(workers))
    lines = []
    for index, name in enumerate(_PHASES):
        state = "done" if index < reached or row.state == "complete" else "todo"
        if index == reached and row.state != "complete":
            state = "failed" if ended_badly else "now"
        lines.append(
            {
                "name": name,
                "state": state,
                "percent": reached_now.percent if state == "now" else 100 * (state != "todo"),
            }
        )
    return lines


def _ended_in(workers: Sequence[Worker]) -> str:
    """The phase that one that failed, or was cancelled, had come to."""
    if any(worker.from_peer or worker.state in _HAD_ALL for worker in workers):
        return "distributing"
    return "downloading" if any(worker.started_ms is not None for worker in workers) else "init"


def kpis(row: Deployment, workers: Sequence[Worker], now_ms: int) -> list[dict[str, Any]]:
    began = row.started_ms or row.created_ms
    elapsed: dict[str, Any] = {
        "label": "Elapsed",
        "note": f"estimated {_at_least_a_second(row.estimated_ms)}",
    }
    if row.state in ACTIVE:
        elapsed["since_ms"] = began
    else:
        elapsed["value"] = format_duration_ms((row.finished_ms or now_ms) - began)
    return [
        elapsed,
        _against_the_bound(row, len(workers), now_ms - began),
        *moving(row, workers),
    ]


def moving(row: Deployment, workers: Sequence[Worker]) -> list[dict[str, Any]]:
    """Those that change every second; the socket brings their values by `name`."""
    reached = progress(deployment_value(row, workers))
    rate = sum(worker.rate_in for worker in workers if worker.state == "receiving")
    from_store = sum(worker.store_bytes for worker in workers)
    size = workers[0].bytes_total if workers else 0
    gone = f"{reached.workers_failed} failed"
    if reached.workers_evicted:
        gone += f", {reached.workers_evicted} evicted"
    moves = f"{format_bytes(int(rate))}/s" if rate or row.state in ACTIVE else "–"
    lines = (
        ("moving", "Throughput", moves, "into all nodes"),
        ("store", "Read from the store", f"{from_store / size:.2f}" if size else "–", "copies"),
        ("ready", "Nodes ready", f"{reached.workers_complete} of {reached.workers}", gone),
        ("retries", "Retries", str(sum(worker.retries for worker in workers)), "of pieces"),
    )  # fmt: skip
    return [
        {"name": f"kpi.{name}", "label": label, "value": value, "note": note}
        for name, label, value, note in lines
    ]


def _against_the_bound(row: Deployment, workers: int, elapsed_ms: int) -> dict[str, Any]:
    rate = int(min(settings.NETWORK_BYTES_PER_SECOND, least_cap(row.team_id, row.rate_cap)))
    least_ms = movement.bound_ms(row, workers, rate)
    ended = row.state == DeploymentState.COMPLETE and row.finished_ms is not None
    took_ms = (row.finished_ms or 0) - (row.started_ms or row.created_ms) if ended else elapsed_ms
    times = times_the_bound(took_ms, least_ms)
    note = f"if each link carries {format_bytes(rate)}/s, as configured"
    if times is not None and (ended or (row.state in ACTIVE and times > 1)):
        note = f"{note}; this took {format_number(times)} times that{'' if ended else ' so far'}"
    return {
        "label": "Theoretical minimum",
        "value": _at_least_a_second(least_ms) if least_ms else "–",
        "note": note,
    }


def _at_least_a_second(ms: int) -> str:
    """Nothing that is estimated is known more exactly."""
    return format_duration_ms(ms) if ms >= LEAST_BOUND_MS else "under 1 s"


def worker_lines(
    row: Deployment, workers: Sequence[Worker], now_ms: int, most: int | None = None
) -> list[dict[str, Any]]:
    """What needs attention first: failed, then those that have least, then those that were ready last."""
    names = {worker.node_id: worker.node.hostname for worker in workers}
    manifest = row.model_version.manifest
    chunks = len(manifest.document["chunks"]) if manifest else 0
    order = sorted(workers, key=_attention)
    began = row.started_ms or row.created_ms
    return [_line(worker, names, chunks, began, now_ms) for worker in order[:most]]


def _attention(worker: Worker) -> tuple[bool, int, int, int]:
    return worker.state != "failed", worker.bytes_done, -(worker.finished_ms or 0), worker.position


def _line(worker: Worker, names: dict[str, str], chunks: int, began_ms: int, now_ms: int) -> dict[str, Any]:
    return {
        "node_id": worker.node_id,
        "node": worker.node.hostname,
        "rack": worker.node.rack,
        "position": worker.position,
        "state": "verifying" if worker.verifying else worker.state,
        "bytes_total": worker.bytes_total,
        "sources": _sources(worker, names),
        "runs": runs_of(worker, chunks),
        **counts(worker, began_ms, now_ms),
    }


def counts(worker: Worker, began_ms: int, now_ms: int) -> dict[str, str]:
    """What changes every second, as it is shown. `began_ms`: of the deployment."""
    receiving = worker.state == "receiving"
    left = _left_ms(worker, now_ms)
    rates = (
        worker.rate_in if receiving else 0,
        worker.rate_out if now_ms - worker.seen_ms < HEARD_MS else 0,
    )
    rate_in, rate_out = (f"{format_bytes(int(rate))}/s" if int(rate) else "–" for rate in rates)
    ready = "–"
    if left is not None:
        ready = f"in {format_duration_ms(left)}"
    elif worker.state == "complete" and worker.finished_ms is not None:
        ready = f"after {format_duration_ms(max(0, worker.finished_ms - began_ms))}"
    return {
        "percent": f"{movement.percent_here([worker])} %",
        "done": format_bytes(worker.bytes_done),
        "rate_in": rate_in,
        "rate_out": rate_out,
        "ready": ready,
        "note": worker.error or _retried(worker),
    }


def _left_ms(worker: Worker, now_ms: int) -> int | None:
    """Until it has everything, at its own average rate; None where it receives nothing."""
    if worker.state != WorkerState.RECEIVING:
        return None
    return remaining_ms(worker.bytes_done, worker.bytes_total, now_ms - (worker.started_ms or now_ms))


def _sources(worker: Worker, names: dict[str, str]) -> dict[str, Any]:
    """Whom it asks, lane by lane, and what came from there; before that, whence its last piece came."""
    brought: dict[str, int] = {}
    for lane, held in zip(worker.lanes, topology.lanes_held(worker), strict=True):
        if lane:
            brought[lane[0] or "store"] = brought.get(lane[0] or "store", 0) + held
    if worker.source:
        brought.setdefault(worker.source, 0)
    largest_first = sorted(brought.items(), key=lambda each: -each[1])
    named = [(names.get(source, "the store"), moved) for source, moved in largest_first]
    if len(named) < 2:
        return {"words": named[0][0] if named else "–", "most": "", "each": []}
    words = f"{len(named)} {'sources' if 'store' in brought else 'neighbours'}"
    return {"words": words, "most": f"most from {named[0][0]}" if named[0][1] else "", "each": named}


def _retried(worker: Worker) -> str:
    if not worker.retries:
        return ""
    often = "once" if worker.retries == 1 else f"{worker.retries} times"
    return f"asked again {often}{f'; last, {worker.trouble}' if worker.trouble else ''}"


def runs_of(worker: Worker, chunks: int) -> list[tuple[int, int, str]]:
    """The bitmap as stretches of chunks that are there."""
    if worker.state == "complete":
        return [(0, chunks, "have")]
    bits = bytes(worker.chunks_done)
    have = [index // 8 < len(bits) and bool(bits[index // 8] >> (index % 8) & 1) for index in range(chunks)]
    runs: list[tuple[int, int, str]] = []
    for index, there in enumerate(have):
        if there and runs and runs[-1][0] + runs[-1][1] == index:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1, "have")
        elif there:
            runs.append((index, 1, "have"))
    return runs


def line(row: Deployment, reached: Progress) -> dict[str, Any]:
    """One line of the list."""
    return {
        "id": row.id,
        "model": row.model_version.model.name,
        "version": row.model_version.version,
        "team": row.team_id,
        "user": row.user.username,
        "state": shown_state(row, reached),
        "marks": [mark for mark, there in (("preheat", row.preheat), ("pinned", row.pinned)) if there],
        "rollout": rollout.badge(row),
        "percent": reached.percent,
        "workers": reached.workers,
        "workers_complete": reached.workers_complete,
        "workers_failed": reached.workers_failed,
        "workers_evicted": reached.workers_evicted,
        "bytes": reached.bytes_total // reached.workers if reached.workers else 0,
        "started_ms": row.started_ms or row.created_ms,
        "elapsed_ms": row.finished_ms - (row.started_ms or row.created_ms) if row.finished_ms else None,
        "note": row.reason,
    }
