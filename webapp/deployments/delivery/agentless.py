"""What a worker without the agent has to do, and what it says of it; the same reports as those of agents."""

from collections.abc import Sequence
from dataclasses import dataclass

from platform_core.distribution.deployments.deployment import DeploymentState, WorkerState
from platform_core.distribution.planning.forest import STORE
from platform_core.errors import TrainmasterError
from platform_core.node.observed import DeploymentObserved, TransferState
from webapp.deployments import services
from webapp.deployments.delivery.keeping import kept
from webapp.deployments.models import Deployment, Worker


@dataclass(frozen=True, slots=True)
class Said:
    """`chunks` are numbers of the manifest's chunks that are verified, rates bytes per second."""

    status: str
    chunks: tuple[int, ...]
    rate_in: float
    rate_out: float
    deployment_id: str = ""  # none: what it has to do next
    error: str = ""


@dataclass(frozen=True, slots=True)
class Task:
    deployment: Deployment
    goes_on: bool


def heard(node_id: str, report: Said) -> Task | None:
    """What it said is kept. The deployment that it works on, and whether it shall go on; None when there is nothing."""
    worker = _worker(node_id, report.deployment_id)
    if worker is None:
        return None
    deployment = worker.deployment
    sizes = [chunk["size"] for chunk in _chunks(deployment)]
    done = _known(report, sizes)
    if deployment.state != DeploymentState.CANCELLED:
        services.report(node_id, _report(deployment, report, done, sizes))
        worker.refresh_from_db(fields=["state"])
    cancelled = deployment.state == DeploymentState.CANCELLED
    return Task(deployment, goes_on=not cancelled and worker.state != WorkerState.COMPLETE)


def _worker(node_id: str, deployment_id: str) -> Worker | None:
    rows = Worker.objects.filter(node=node_id).select_related(
        "deployment__model_version__model", "deployment__model_version__manifest"
    )
    newest_first = list(rows.order_by("-deployment__created_ms", "-deployment_id"))
    if deployment_id:
        named = next((row for row in newest_first if row.deployment_id == deployment_id), None)
        if named is None:
            raise TrainmasterError("not_found", what=f"deployment {deployment_id} for this worker")
        return named
    wanted = kept(row for row in newest_first if row.deployment.state != DeploymentState.CANCELLED)
    undone = [row for row in wanted if row.state != WorkerState.COMPLETE]
    # The oldest that is not done; with all done, or cancelled, the newest of all.
    return undone[-1] if undone else next(iter(newest_first), None)


def _known(report: Said, sizes: Sequence[int]) -> frozenset[int]:
    done = frozenset(report.chunks)
    if strange := sorted(number for number in done if not 0 <= number < len(sizes)):
        why = f"there is no chunk {strange[0]}; the model has {len(sizes)}, counted from 0"
        raise TrainmasterError("request_invalid", what="chunks_received", why=why)
    if report.status == "complete" and len(done) < len(sizes):
        why = f"complete, with {len(done)} of {len(sizes)} chunks received"
        raise TrainmasterError("request_invalid", what="status", why=why)
    return done


def _report(
    deployment: Deployment, report: Said, done: frozenset[int], sizes: Sequence[int]
) -> DeploymentObserved:
    bits = bytearray((len(sizes) + 7) // 8)
    for number in done:
        bits[number // 8] |= 1 << number % 8
    size = sum(sizes[number] for number in done)
    return DeploymentObserved(
        deployment_id=deployment.id,
        state=TransferState(report.status),
        bytes_done=size,
        bytes_total=sum(sizes),
        chunks_done=bytes(bits),
        rate_in=report.rate_in,
        rate_out=report.rate_out,
        source=STORE,
        error_code="internal" if report.status == "failed" else "",
        error=(report.error or "The worker says that it failed.") if report.status == "failed" else "",
        retries=0,
        store_bytes=size,
    )


def _chunks(deployment: Deployment) -> list[dict[str, int]]:
    manifest = deployment.model_version.manifest
    return manifest.document["chunks"] if manifest else []
