"""Which node has which chunk, small enough for a thousand nodes by five hundred chunks; and who was ready when."""

import base64
from collections.abc import Sequence
from typing import Any

from platform_core.distribution.deployments.deployment import WorkerState
from platform_core.distribution.planning import bounds
from platform_core.units import format_duration_ms
from webapp.deployments.models import Deployment, Worker

LINES = 60  # of the waterfall: those that were ready last


def chunk_map(row: Deployment, workers: Sequence[Worker]) -> dict[str, Any]:
    """Rows in rack order; `bits` is the bitmap of the chunks in base64, chunk i being bit i % 8 of byte i / 8."""
    chunks = _chunks(row)
    whole = bytes([255] * (-(-chunks // 8)))
    in_order = sorted(workers, key=lambda worker: (worker.node.rack, worker.position))
    return {
        "chunks": chunks,
        "rows": [
            {
                "position": worker.position,
                "node": worker.node.hostname,
                "rack": worker.node.rack,
                "state": worker.state,
                "bits": base64.b64encode(
                    whole if worker.state == "complete" else bytes(worker.chunks_done)
                ).decode(),
            }
            for worker in in_order
        ],
    }


def percent_here(workers: Sequence[Worker]) -> int:
    """Of what they should hold; what was given up for room is not there."""
    total = sum(worker.bytes_total for worker in workers)
    here = sum(worker.bytes_done for worker in workers if worker.state != WorkerState.EVICTED)
    return 100 * here // total if total else 100


def waterfall(row: Deployment, workers: Sequence[Worker]) -> list[dict[str, Any]]:
    """When each node began and was ready, in thousandths of the time that the deployment took; the last ones first. One
    that came later, or failed once more, is drawn at the end."""
    begun = row.started_ms or row.created_ms
    ended = [worker for worker in workers if worker.finished_ms is not None]
    last = row.finished_ms or max((worker.finished_ms or 0 for worker in ended), default=begun)
    span = max(1, last - begun)
    in_order = sorted(ended, key=lambda worker: (-(worker.finished_ms or 0), worker.position))
    return [_bar(worker, begun, span) for worker in in_order[:LINES]]


def _bar(worker: Worker, begun: int, span: int) -> dict[str, Any]:
    """`runs` as the `strip` tag draws them."""
    first, last = (worker.started_ms or begun) - begun, (worker.finished_ms or begun) - begun
    kind = "bad" if worker.state == WorkerState.FAILED else "have"
    left, right = (min(1000, 1000 * ms // span) for ms in (first, last))
    width = max(4, right - left)
    return {
        "node": worker.node.hostname,
        "runs": [(min(left, 1000 - width), width, kind)],
        "label": f"{worker.node.hostname}: {format_duration_ms(first)} to {format_duration_ms(last)}",
        "took_ms": last,
        "failed": worker.state == WorkerState.FAILED,
    }


def bound_ms(row: Deployment, workers: int, rate: int) -> int:
    """The least time that any strategy takes at this rate of each link. See `planning.bounds`."""
    manifest = row.model_version.manifest
    if manifest is None or not workers:
        return 0
    return bounds.rounds_ms(manifest.total_bytes, manifest.document["piece_size"], workers, rate)


def _chunks(row: Deployment) -> int:
    manifest = row.model_version.manifest
    return len(manifest.document["chunks"]) if manifest else 0
