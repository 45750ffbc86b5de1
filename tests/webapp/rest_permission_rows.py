"""Who gets what of every REST method: one row each, in the letters of test_permissions."""

from collections.abc import Callable, Iterator
from hashlib import sha256

from tests.webapp.lineage_permission_rows import api_lineage_rows
from tests.webapp.model_permission_rows import api_model_rows
from tests.webapp.permission_rows import (
    EVERYBODY,
    LEADS,
    MEMBERS,
    OF_TEAM,
    OPERATORS,
    OWN_OR_LEAD,
    SIGNED_IN,
    WHILE_OUT,
    WHILE_RUNNING,
    WHILE_STOPPING,
    Row,
    api_row,
)
from tests.webapp.retraining_permission_rows import api_retraining_rows
from tests.webapp.storage_permission_rows import api_storage_rows
from tests.webapp.world import endpoint_mapping, job_mapping, sweep_mapping
from webapp.base.identity import now_ms


def api_cluster_rows(row: Callable[..., Row] = api_row) -> Iterator[Row]:
    yield row("get", "nodes", SIGNED_IN)
    yield row("patch", "nodes/<str:node_id>", OPERATORS, "nodes/{node}", {"taints": ["lab"]})
    drained = {"reason": "new memory", "seconds": 3600}
    yield row("post", "nodes/<str:node_id>/drain", OPERATORS, "nodes/{node}/drain", drained)
    yield row("get", "nodes/<str:node_id>/health", SIGNED_IN, "nodes/{node}/health")
    yield row("post", "nodes/<str:node_id>/return", WHILE_OUT, "nodes/{node}/return")
    yield row("post", "nodes/<str:node_id>/resume", OPERATORS, "nodes/{node}/resume")
    yield row("post", "nodes/<str:node_id>/notice", OPERATORS, "nodes/{node}/notice", {"seconds": 120})
    yield row("get", "service-levels", SIGNED_IN)
    level = "service-levels/<str:code>"
    yield row("get", level, SIGNED_IN, "service-levels/recovery")
    yield row("patch", level, OPERATORS, "service-levels/recovery", {"target": 0.99})
    yield row("delete", level, OPERATORS, "service-levels/recovery")
    yield row("get", "maintenance-windows", SIGNED_IN)
    booked = {"nodes": ["{node}"], "begin_ms": 0, "end_ms": now_ms() + 3_600_000}
    yield row("post", "maintenance-windows", OPERATORS, body=booked)
    window = "maintenance-windows/<int:window_id>"
    yield row("delete", window, OPERATORS, "maintenance-windows/{window}")


def api_team_rows(row: Callable[..., Row] = api_row) -> Iterator[Row]:
    yield row("get", "teams", SIGNED_IN)
    yield row("get", "teams/<str:slug>", OF_TEAM, "teams/vision")
    yield row("patch", "teams/<str:slug>", OPERATORS, "teams/vision", {"weight": 2})
    members, quotas = "teams/<str:slug>/members", "teams/<str:slug>/quotas"
    yield row("get", members, OF_TEAM, "teams/vision/members")
    member = f"{members}/<str:username>"
    yield row("put", member, LEADS, "teams/vision/members/carol", {"role": "viewer"})
    yield row("delete", member, LEADS, "teams/vision/members/bob")
    yield row("get", quotas, OF_TEAM, "teams/vision/quotas")
    yield row("get", f"{quotas}/<str:gpu_type>", OF_TEAM, "teams/vision/quotas/cpu")
    quota = {"guaranteed": 1, "maximum": 2, "version": 1}
    yield row("put", f"{quotas}/<str:gpu_type>", LEADS, "teams/vision/quotas/cpu", quota)
    yield row("get", "departments", SIGNED_IN)
    yield row("post", "departments", OPERATORS, body={"slug": "product", "name": "Product"})
    one = "departments/<str:slug>"
    yield row("get", one, OF_TEAM, "departments/{department}")
    yield row("patch", one, OPERATORS, "departments/{department}", {"weight": 2})
    yield row("delete", one, "L F F F F F 409", "departments/{department}")  # vision is in it


def api_experiment_rows(row: Callable[..., Row] = api_row) -> Iterator[Row]:
    yield row("post", "experiments", MEMBERS, body={"team": "vision", "name": "rates"})
    one, address = "experiments/<int:experiment_id>", "experiments/{experiment}"
    yield row("get", one, OF_TEAM, address)
    yield row("patch", one, MEMBERS, address, {"description": "why"})
    yield row("delete", one, OWN_OR_LEAD, "experiments/{own_experiment}")
    yield row("post", f"{one}/restore", MEMBERS, f"{address}/restore")
    yield row("get", "runs", SIGNED_IN)
    yield row("post", "runs", MEMBERS, body={"team": "vision", "name": "laptop"})
    yield row("post", "runs/search", SIGNED_IN, body={"filter": "metrics.loss < 1"})
    yield row("post", "runs/bulk", OWN_OR_LEAD, body={"ids": ["{run}"], "action": "delete"})
    yield row("get", "runs/curves", OF_TEAM, "runs/curves?runs={run}&key=loss")
    one, address = "runs/<str:run_id>", "runs/{run}"
    yield row("get", one, OF_TEAM, address)
    yield row("patch", one, MEMBERS, address, {"name": "second", "tags": {"stage": "prod"}})
    yield row("delete", one, OWN_OR_LEAD, address)
    yield row("post", f"{one}/restore", MEMBERS, f"{address}/restore")
    yield row("post", f"{one}/finish", MEMBERS, f"{address}/finish", {"state": "failed"})
    batch = {"source": "laptop", "sequence": 2, "metrics": [{"key": "loss", "points": [[2, 0.5, 1]]}]}
    yield row("post", f"{one}/log", MEMBERS, f"{address}/log", batch)
    yield row("get", f"{one}/metrics", OF_TEAM, f"{address}/metrics")
    yield row("get", f"{one}/efficiency", OF_TEAM, f"{address}/efficiency")
    yield row("get", f"{one}/metrics/history", OF_TEAM, f"{address}/metrics/history?key=loss")


def api_sweep_rows(row: Callable[..., Row] = api_row) -> Iterator[Row]:
    yield row("get", "sweeps", SIGNED_IN)
    yield row("post", "sweeps", MEMBERS, body=sweep_mapping())
    sweep, one = "sweeps/<str:sweep_id>", "sweeps/{sweep}"
    yield row("get", sweep, OF_TEAM, one)
    yield row("get", f"{sweep}/trials", OF_TEAM, f"{one}/trials")
    yield row("post", f"{sweep}/pause", OWN_OR_LEAD, f"{one}/pause")
    yield row("post", f"{sweep}/resume", OWN_OR_LEAD, f"{one}/resume")
    yield row("post", f"{sweep}/cancel", OWN_OR_LEAD, f"{one}/cancel")
    yield row("patch", f"{sweep}/budget", OWN_OR_LEAD, f"{one}/budget", {"trials": 20})
    yield row("post", f"{sweep}/ask", OWN_OR_LEAD, f"{one}/ask", {"parameters": {"lr": 0.01}})
    told = {"points": [[1, 2.5]], "value": 2.5}
    yield row("post", f"{sweep}/trials/<int:number>/tell", OWN_OR_LEAD, f"{one}/trials/1/tell", told)


def api_dataset_rows(row: Callable[..., Row] = api_row) -> Iterator[Row]:
    yield row("get", "datasets", SIGNED_IN)
    snapshot = {"team": "vision", "manifest": "{dataset_manifest}", "purpose": "training"}
    yield row("post", "datasets/<str:name>/snapshots", MEMBERS, "datasets/stdlib/snapshots", snapshot)
    card, address = "teams/<str:slug>/datasets/<str:name>", "teams/vision/datasets/{dataset}"
    yield row("get", card, OF_TEAM, address)
    yield row("patch", card, MEMBERS, address, {"description": "The standard library"})
    one, address = "dataset-snapshots/<str:snapshot_id>", "dataset-snapshots/{snapshot}"
    yield row("get", one, OF_TEAM, address)
    yield row("patch", one, OWN_OR_LEAD, address, {"purpose": "eval,train"})
    yield row("delete", one, OWN_OR_LEAD, address)
    yield row("get", f"{one}/files", OF_TEAM, f"{address}/files")
    yield row("get", f"{one}/preview", OF_TEAM, f"{address}/preview?path=dataset.bin")
    yield row("get", f"{one}/difference/<str:other>", OF_TEAM, f"{address}/difference/{{snapshot}}")
    yield row("get", f"{one}/jobs", OF_TEAM, f"{address}/jobs")
    yield row("get", f"{one}/unreadable", OF_TEAM, f"{address}/unreadable")
    released = {"row_ids": [], "decision": "release"}
    yield row("patch", f"{one}/unreadable", MEMBERS, f"{address}/unreadable", released)
    # It was uploaded: it has no source to compare with, and no registration to resume.
    yield row("post", f"{one}/check", "L N 400 400 400 400 400", f"{address}/check")
    yield row("post", f"{one}/resume", "L N F 400 400 400 400", f"{address}/resume")
    yield row("get", "dataset-access", SIGNED_IN)
    asked = {"dataset_team": "vision", "dataset": "{dataset}", "team": "vision", "purpose": "train"}
    yield row("post", "dataset-access", LEADS, body=asked)
    decided = {"decision": "approve", "days": 30}
    yield row(
        "post", "dataset-access/<str:request_id>", OWN_OR_LEAD, "dataset-access/{access_request}", decided
    )


def api_alert_rows(row: Callable[..., Row] = api_row) -> Iterator[Row]:
    yield row("get", "alerts", SIGNED_IN)
    yield row("get", "alerts/<str:alert_id>", OF_TEAM, "alerts/{alert}")
    yield row(
        "post", "alerts/<str:alert_id>/acknowledge", MEMBERS, "alerts/{alert}/acknowledge", {"note": "mine"}
    )
    yield row("get", "alerts/silences", SIGNED_IN)
    silence = {"team": "vision", "rule": "job_underused", "seconds": 3600, "reason": "a known trial"}
    yield row("post", "alerts/silences", MEMBERS, body=silence)
    yield row("delete", "alerts/silences/<int:silence_id>", MEMBERS, "alerts/silences/{silence}")
    yield row("get", "alerts/rules", SIGNED_IN)
    tried = "alerts/rules/preview?condition=job.utilisation+%3C+50&team=vision"
    yield row("get", "alerts/rules/preview", OF_TEAM, tried)
    rule = {"team": "vision", "title": "Slow", "condition": "job.slowdown > 20 for 5m", "severity": "warning"}
    yield row("put", "alerts/rules/<str:code>", LEADS, "alerts/rules/slow_jobs", rule)
    yield row("delete", "alerts/rules/<str:code>", LEADS, "alerts/rules/{alert_rule}")
    yield row("get", "alerts/channels", SIGNED_IN)
    mail = {"team": "vision", "name": "all of us", "kind": "mail", "address": "vision@example.org"}
    yield row("post", "alerts/channels", LEADS, body=mail)
    yield row("delete", "alerts/channels/<int:channel_id>", LEADS, "alerts/channels/{alert_channel}")
    yield row("post", "alerts/channels/<int:channel_id>/test", LEADS, "alerts/channels/{alert_channel}/test")


def api_endpoint_rows(row: Callable[..., Row] = api_row) -> Iterator[Row]:
    endpoint, one = "endpoints/<str:team>/<str:name>", "endpoints/vision/{endpoint}"
    yield row("get", f"{endpoint}/drift", OF_TEAM, f"{one}/drift")
    yield row("get", f"{endpoint}/canary", OF_TEAM, f"{one}/canary")
    yield row("get", f"{endpoint}/collection", OF_TEAM, f"{one}/collection")
    # Nothing is collected yet.
    yield row("post", f"{endpoint}/collection", "L N F F 400 400 400", f"{one}/collection")
    yield row("get", f"{endpoint}/quality", OF_TEAM, f"{one}/quality")
    labels = {"labels": {"request-1": "cat"}}
    yield row("post", f"{endpoint}/labels", MEMBERS, f"{one}/labels", labels)
    yield row("get", "endpoints", SIGNED_IN)
    yield row("post", "endpoints", MEMBERS, body=endpoint_mapping())
    yield row("get", endpoint, OF_TEAM, one)
    yield row("patch", endpoint, OWN_OR_LEAD, one, {"min_replicas": 1, "max_replicas": 2})
    yield row("delete", endpoint, OWN_OR_LEAD, one)
    # A canary is being watched already.
    yield row("put", f"{endpoint}/version", "L N F F 400 400 400", f"{one}/version", {"version": 1})
    yield row("post", f"{endpoint}/promote", OWN_OR_LEAD, f"{one}/promote")
    yield row("post", f"{endpoint}/rollback", OWN_OR_LEAD, f"{one}/rollback")


def api_report_rows(row: Callable[..., Row] = api_row) -> Iterator[Row]:
    report, one = "reports/<str:report_id>", "reports/{report}"
    yield row("get", "reports", SIGNED_IN)
    yield row("post", "reports", MEMBERS, body={"team": "vision", "title": "Rates", "text": "slow is best"})
    yield row("get", report, OF_TEAM, one)
    yield row("patch", report, MEMBERS, one, {"version": 1, "title": "Widths"})
    yield row("delete", report, OWN_OR_LEAD, one)
    # It is not deleted, so there is nothing to restore.
    yield row("post", f"{report}/restore", "L N N N N N N", f"{one}/restore")
    yield row("get", f"{report}/versions", OF_TEAM, f"{one}/versions")
    yield row("get", f"{report}/versions/<int:number>", OF_TEAM, f"{one}/versions/1")
    yield row("post", f"{report}/versions/<int:number>/restore", MEMBERS, f"{one}/versions/1/restore")
    yield row("get", f"{report}/comments", OF_TEAM, f"{one}/comments")
    yield row("post", f"{report}/comments", MEMBERS, f"{one}/comments", {"text": "good"})
    yield row("delete", f"{report}/comments/<int:comment_id>", OWN_OR_LEAD, f"{one}/comments/{{comment}}")
    yield row("get", f"{report}/links", OF_TEAM, f"{one}/links")
    yield row("post", f"{report}/links", MEMBERS, f"{one}/links", {"days": 7})
    yield row("delete", f"{report}/links/<int:link_id>", MEMBERS, f"{one}/links/{{read_link}}")


def job_rows(row: Callable[..., Row] = api_row) -> Iterator[Row]:
    job, one = "training-jobs/<str:job_id>", "training-jobs/{job}"
    yield row("post", f"{job}/again", MEMBERS, f"{one}/again")
    yield row("get", f"{job}/reproduction", OF_TEAM, "training-jobs/{repetition}/reproduction")
    yield row("get", job, OF_TEAM, one)
    yield row("patch", job, LEADS, one, body={"priority": 40})
    yield row("post", f"{job}/cancel", OWN_OR_LEAD, f"{one}/cancel")
    yield row("post", f"{job}/stacks", WHILE_RUNNING, f"{one}/stacks")
    yield row("post", f"{job}/checkpoints", WHILE_RUNNING, f"{one}/checkpoints")
    pin, pinned = f"{job}/checkpoints/<str:checkpoint_id>/pin", f"{one}/checkpoints/{{checkpoint}}/pin"
    yield row("put", pin, OWN_OR_LEAD, pinned)
    yield row("delete", pin, OWN_OR_LEAD, pinned)
    yield row("delete", pin.removesuffix("/pin"), WHILE_RUNNING, pinned.removesuffix("/pin"))  # it is in use
    yield row("put", f"{job}/retention", OWN_OR_LEAD, f"{one}/retention", {"keep_last": 1})
    yield row("post", f"{job}/retention", OF_TEAM, f"{one}/retention", {"keep_last": 1})
    yield row("post", f"{job}/profile", WHILE_RUNNING, f"{one}/profile")
    yield row("post", f"{job}/restart", WHILE_RUNNING, f"{one}/restart")
    yield row("post", f"{job}/lost", WHILE_STOPPING, f"{one}/lost")
    for part in ("logs", "events", "checkpoints", "metrics", "recoveries", "retention", "stacks"):
        yield row("get", f"{job}/{part}", OF_TEAM, f"{one}/{part}")


def api_rows() -> Iterator[Row]:
    """The same letters as the pages have, but a stranger is asked who they are."""
    row = api_row
    yield row("get", "schema", EVERYBODY)
    yield row("get", "me", SIGNED_IN)
    yield from api_team_rows()
    yield from api_cluster_rows()
    yield from api_sweep_rows()
    yield from api_endpoint_rows()
    planned = {"model": {"layers": 2, "hidden": 64, "heads": 2}, "gpus": 1}
    yield row("post", "parallelism/plans", SIGNED_IN, body=planned)
    yield row("get", "parallelism/predictions", SIGNED_IN)
    yield from api_report_rows()
    yield from api_alert_rows()
    yield row("get", "training-jobs", SIGNED_IN)
    yield row("post", "training-jobs", MEMBERS, body=job_mapping())
    yield row("post", "training-jobs/dry-run", MEMBERS, body=job_mapping())
    yield row("get", "training-jobs/resolve", OF_TEAM, "training-jobs/resolve?job={job}")
    yield row("get", "queue", SIGNED_IN)
    yield row("get", "efficiency", SIGNED_IN)
    yield row("get", "chargeback", SIGNED_IN)
    yield row("get", "experiments", SIGNED_IN)
    yield row("get", "experiments/compare", OF_TEAM, "experiments/compare?jobs={job}")
    yield from api_experiment_rows()
    yield from api_dataset_rows()
    yield from job_rows(row)
    yield row("post", "uploads", MEMBERS, body={"kind": "code", "team": "vision"})
    # An upload is nobody's but its owner's until it is complete.
    file = "uploads/{upload}/files/train.py"
    yield row("put", "uploads/<str:upload_id>/files/<path:path>", "L N N N Y N N", file)
    known = [{"path": "train.py", "sha256": sha256(b"code").hexdigest()}]
    named = {"manifest": "{code_manifest}", "files": known}
    yield row("post", "uploads/<str:upload_id>/earlier", "L N N N Y N N", "uploads/{upload}/earlier", named)
    yield row("post", "uploads/<str:upload_id>/complete", "L N N N Y N N", "uploads/{upload}/complete")
    yield from run_file_rows()
    yield from api_model_rows()
    yield from api_lineage_rows()
    yield from api_retraining_rows()
    yield from api_storage_rows()
    yield row("get", "deployments", SIGNED_IN)
    begun = {"model_id": "vision/bytelm", "version": 1, "target_workers": ["{node}"]}
    yield row("post", "deployments", MEMBERS, body=begun)
    # Workers without the agent: nobody's token opens these, only a bootstrap token or a node's credential.
    new = {"worker_id": "w-1", "hostname": "old-1", "rack": "rack-1", "available_storage": 10}
    yield row("post", "workers/register", EVERYBODY.replace("Y", "A"), body=new)
    said = {"worker_id": "w-1", "status": "idle", "chunks_received": []}
    yield row("post", "workers/heartbeat", EVERYBODY.replace("Y", "A"), body=said)
    asked = "deployments/plan?model_id=vision/{model}&version=1&target_workers={node}"
    yield row("get", "deployments/plan", MEMBERS, asked)
    yield row("post", "deployments/plan", MEMBERS, body=begun)
    pinned = {"pin": True}
    one, address = "deployments/<str:deployment_id>", "deployments/{deployment}"
    yield row("patch", one, MEMBERS, address, pinned)
    yield row("get", one, OF_TEAM, address)
    yield row("delete", one, OWN_OR_LEAD, address)
    yield row("post", f"{one}/retry", MEMBERS, f"{address}/retry")
    for verb in ("promote", "rollback"):
        yield row("post", f"{one}/{verb}", OWN_OR_LEAD, f"{address}/{verb}")


def run_file_rows() -> Iterator[Row]:
    row = api_row
    yield row("get", "runs/<str:run_id>/files", OF_TEAM, "runs/{job}/files")
    one = "runs/<str:run_id>/files/<path:path>"
    yield row("get", one, OF_TEAM, "runs/{job}/files/code/code.bin")
    yield row("put", one, MEMBERS, "runs/{job}/files/notes.txt")
    yield row("delete", one, MEMBERS, "runs/{job}/files/notes.txt")
    values = "runs/<str:run_id>/values"
    yield row("get", values, OF_TEAM, "runs/{job}/values?key=notes")
    text = {"key": "notes", "step": 1, "type": "text", "document": {"text": "better"}}
    yield row("post", values, MEMBERS, "runs/{job}/values", text)
    image = f"{values}/<int:value_id>/file"
    yield row("get", image, OF_TEAM, "runs/{job}/values/{run_value}/file")
    yield row("post", "runs/<str:run_id>/uploads", MEMBERS, "runs/{job}/uploads", {"path": "a", "parts": 1})
    one, address = "runs/<str:run_id>/uploads/<str:upload_id>", "runs/{job}/uploads/{run_upload}"
    yield row("put", f"{one}/parts/<int:number>", "L N N N Y N N", f"{address}/parts/1")
    yield row("post", one, "L N N N Y N N", address)
    yield row("delete", one, "L N N N Y N N", address)
