"""Between the rows of deployments and the core's values of them."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from platform_core.distribution.deployments.deployment import Deployment, DeploymentState, Worker, WorkerState
from platform_core.distribution.planning.estimate import Estimate
from webapp.deployments import models


def deployment_value(row: models.Deployment, workers: Iterable[models.Worker]) -> Deployment:
    return Deployment(
        id=row.id,
        state=DeploymentState(row.state),
        version=row.version,
        workers=tuple(worker_value(worker) for worker in workers),
        created_ms=row.created_ms,
        started_ms=row.started_ms,
        finished_ms=row.finished_ms,
        reason=row.reason,
    )


def worker_value(row: models.Worker) -> Worker:
    return Worker(
        node=row.node_id,
        position=row.position,
        state=WorkerState(row.state),
        bytes_total=row.bytes_total,
        bytes_done=row.bytes_done,
        verifying=row.verifying,
        from_peer=row.from_peer,
        error_code=row.error_code,
        error=row.error,
        started_ms=row.started_ms,
        finished_ms=row.finished_ms,
    )


def deployment_columns(value: Deployment) -> dict[str, Any]:
    return {
        "state": value.state,
        "version": value.version,
        "started_ms": value.started_ms,
        "finished_ms": value.finished_ms,
        "reason": value.reason,
        "node_states": Counter(worker.state for worker in value.workers),
    }


def worker_columns(value: Worker) -> dict[str, Any]:
    return {
        "state": value.state,
        "bytes_done": value.bytes_done,
        "verifying": value.verifying,
        "from_peer": value.from_peer,
        "error_code": value.error_code,
        "error": value.error,
        "started_ms": value.started_ms,
        "finished_ms": value.finished_ms,
    }


def estimate_document(value: Estimate) -> dict[str, Any]:
    return asdict(value)


def estimate_value(document: dict[str, Any]) -> Estimate:
    return Estimate(**document)
