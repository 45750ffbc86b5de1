"""What changes on the page of a deployment every second, by the names under which the page shows it (data-value)."""

from webapp.base.identity import now_ms
from webapp.deployments.models import Deployment, Worker
from webapp.pages.deployments import presentation, topology

# Lanes and bitmaps stay in the database: with them a thousand nodes take three times as long.
_WORKER = (
    "deployment_id", "position", "state", "bytes_total", "bytes_done", "verifying", "rate_in", "rate_out", "retries",
    "trouble", "store_bytes", "from_peer", "error_code", "error", "started_ms", "finished_ms", "seen_ms", "node",
    "node__rack", "node__block",
)  # fmt: skip


def numbers(deployment_id: str) -> dict[str, str]:
    deployment = Deployment.objects.filter(id=deployment_id).first()
    if deployment is None:
        return {}
    rows = (
        Worker.objects.filter(deployment=deployment)
        .select_related("node")
        .only(*_WORKER)
        .order_by("position")
    )
    workers, now = list(rows), now_ms()
    values = {kpi["name"]: kpi["value"] for kpi in presentation.moving(deployment, workers)}
    values["answer"] = presentation.answer(deployment, workers, now)["headline"]
    now_at = [phase for phase in presentation.phases(deployment, workers) if phase["state"] == "now"]
    if now_at:
        values["phase"] = f"{now_at[0]['percent']} %"
    for row in topology.rows(topology.groups(workers)):
        values |= {f"r.{row['name']}.{part}": row[part] for part in ("ready", "percent", "rate")}
    began = deployment.started_ms or deployment.created_ms
    for worker in workers:
        counts = presentation.counts(worker, began, now)
        values |= {f"w{worker.position}.{part}": text for part, text in counts.items()}
    return values
