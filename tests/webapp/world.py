"""One of everything that team vision can have, all of it alice's, for the tests that walk every URL."""

import io
from dataclasses import asdict, dataclass
from typing import Any

from platform_core.distribution.deployments.deployment import DeploymentState
from platform_core.distribution.rollouts.states import MemberState, RolloutState
from platform_core.experiments import rich_values
from platform_core.lineage.graph import Item, Kind
from platform_core.serving.canary import CanaryPolicy
from tests.webapp.conftest import BOOTSTRAP, Cast, description
from webapp.accounts import queries as accounts
from webapp.accounts import services as account_services
from webapp.accounts import tokens
from webapp.accounts.permissions import SYSTEM
from webapp.alerts import services as alerts
from webapp.alerts.models import Alert
from webapp.artifacts import services as artifacts
from webapp.base.identity import now_ms
from webapp.checkpoints.models import Checkpoint
from webapp.datasets import services as datasets
from webapp.deployments.models import Deployment
from webapp.evaluations import services as evaluations
from webapp.experiments import services as experiments
from webapp.experiments.models import Run, RunArtifact
from webapp.experiments.saved_views import save_view
from webapp.experiments.services import Point
from webapp.jobs import services as jobs
from webapp.jobs.repetition import run_again
from webapp.lineage import services as lineage
from webapp.metrics.values import Points
from webapp.nodes import services as clusters
from webapp.quotas.models import Quota
from webapp.registry import exports
from webapp.registry import services as registry
from webapp.registry.models import ModelVersion
from webapp.reports import services as reports
from webapp.retraining import services as retraining
from webapp.retraining.models import Cycle
from webapp.rollouts.models import Rollout, RolloutMember
from webapp.scheduling.models import WhatIf
from webapp.serving import services as serving
from webapp.serving.models import Endpoint, Prediction
from webapp.storage.models import Leftover
from webapp.sweeps import outside
from webapp.sweeps import services as sweeps

PNG = b"\x89PNG\r\n\x1a\n and what follows"


@dataclass(frozen=True)
class World:
    job: str
    repetition: str  # of the job
    own_experiment: int  # of which every run is alice's
    sweep: str  # its trial 1 is evaluated by a program of alice
    experiment: int
    run: str  # without a job
    view: int  # saved by alice, shared
    report: str
    comment: int
    read_link: int
    read_token: str  # of the link
    checkpoint: str
    artifact: int
    model: str
    model_version: str
    serving_target: str
    suite: str  # its name; lena published it
    deployment: str
    upload: str
    run_upload: str
    run_value: int  # an image
    dataset: str  # its name
    code_manifest: str
    dataset_manifest: str
    snapshot: str  # the newest of it
    access_request: str  # of vision for its own dataset
    model_manifest: str
    node: str
    token: int
    bootstrap_token: int
    member: int  # number of bob, whom leads may change
    secret: str
    what_if: int  # alice's question
    endpoint: str  # its name; it watches a canary
    endpoint_id: str
    cycle: str  # of retraining; it waits for an approval
    prediction: str  # of the endpoint, that waits for a label
    window: int  # booked maintenance
    department: str  # where vision is
    alert: str  # firing, about the job
    silence: int
    alert_rule: str  # its code
    alert_channel: int
    recall: str  # of the run without a job
    leftover: int  # an upload that was never completed


def job_mapping(**changes: Any) -> dict[str, Any]:
    return {
        "name": "bytelm",
        "team": "vision",
        "command": "python train.py",
        "num_gpus": 1,
        "gpu_type": "cpu",
        "experiment": "first steps",
        **changes,
    }


def build(cast: Cast) -> World:
    alice = accounts.actor_of(cast.owner)
    Quota.objects.create(team_id="vision", gpu_type="cpu", guaranteed=4, maximum=8)
    account_services.set_secret(accounts.actor_of(cast.lead), "vision", "HF_TOKEN", "hf_abcdef")
    department = account_services.create_department(SYSTEM, "research", "Research").slug
    account_services.change_team(SYSTEM, "vision", department=department)
    node, _ = clusters.join(BOOTSTRAP, description())
    clusters.hello(node, description())
    job, _ = jobs.submit(alice, job_mapping())
    experiments.ingest(job.id, 1, [Point("loss", 1, 2.0, now_ms())])
    model_manifest = _manifest(alice, "model")
    checkpoint = Checkpoint.objects.create(
        id="ckpt-0000000000000000", job=job, attempt=1, step=50, manifest_id=model_manifest, saved_ms=1
    )
    artifact = _artifact(alice, job.id)
    version = registry.register(alice, "vision", "bytelm", manifest=model_manifest)
    deployment = Deployment.objects.create(
        id="dep-0000000000000000", team_id="vision", user=cast.owner, model_version=version,
        source_url="file:///nowhere", state=DeploymentState.INIT, estimated_ms=1000, created_ms=1,
    )  # fmt: skip
    _hold(deployment, node)
    dataset = _manifest(alice, "dataset")
    snapshot = datasets.add_snapshot(alice, "vision", "stdlib", dataset, "eval")
    laptop = _run_and_report(alice)
    return World(
        job=job.id,
        repetition=run_again(alice, job.id).id,
        **laptop,
        recall=lineage.recall(alice, Item(Kind.RUN, laptop["run"]), "the test set was read").id,
        sweep=_sweep(alice),
        **_endpoint(alice, version),
        **_cycle(cast, version),
        view=save_view(alice, Run.objects.get(id=job.id).experiment, "newest", "", shared=True).pk,
        experiment=Run.objects.get(id=job.id).experiment_id,
        checkpoint=checkpoint.id,
        artifact=artifact.pk,
        model="bytelm",
        model_version=version.id,
        **_proofs(cast),
        deployment=deployment.id,
        upload=_upload(alice, "code"),
        run_upload=_run_upload(alice, job.id),
        run_value=_run_value(alice, job.id),
        dataset="stdlib",
        code_manifest=str(artifact.manifest_id),
        dataset_manifest=dataset,
        snapshot=snapshot.id,
        access_request=_access_request(cast),
        model_manifest=model_manifest,
        node=node,
        token=tokens.create_token(alice, "vision", "laptop", 1).id,
        bootstrap_token=clusters.create_bootstrap_token(SYSTEM, "rack 3", 1).id,
        member=cast.member.pk,
        secret="HF_TOKEN",
        what_if=WhatIf.objects.create(user=cast.owner, asked_ms=1, question={"gpu_type": "cpu"}).pk,
        window=clusters.book_maintenance(SYSTEM, [node], now_ms() + 3_600_000, now_ms() + 7_200_000, "").pk,
        department=department,
        leftover=_leftover(alice),
        **_alerts(cast, job.id),
    )


def _proofs(cast: Cast) -> dict[str, str]:
    """What versions are measured by."""
    lead = accounts.actor_of(cast.lead)
    return {
        "suite": evaluations.publish(lead, suite_mapping())[0].name,
        "serving_target": exports.set_target(lead, "vision", "edge", {"max_latency_ms": 5}).name,
    }


def _hold(deployment: Deployment, node: str) -> None:
    """A rollout that waits with its first node."""
    held = Rollout.objects.create(
        deployment=deployment, model=deployment.model_version.model, canaries=1, command_seconds=60,
        state=RolloutState.HOLDING, check_every_ms=0, roll_back_after=0, holding_since_ms=1,
    )  # fmt: skip
    RolloutMember.objects.create(
        rollout=held, node_id=node, position=0, state=MemberState.ACTIVE, canary=True, revision=1
    )


def _alerts(cast: Cast, job_id: str) -> dict[str, Any]:
    lead = accounts.actor_of(cast.lead)
    alert = Alert.objects.create(
        id="alert-0000000000000000", rule="job_underused", title="A job uses its slots too little",
        severity="warning", subject=job_id, name="bytelm", team="vision", sentence="It uses 40 %.", remedy="Look.",
        condition="below 80 % for 5 min", state="firing", since_ms=2, began_ms=1, seen_ms=3, value=40.0, worst=30.0,
        fired_ms=2,
    )  # fmt: skip
    held = alerts.silence(lead, "vision", lasts_ms=3_600_000, reason="a trial", rule="job_low_mfu")
    rule = alerts.save_rule(
        lead,
        "vision",
        "slow_training",
        title="Slow",
        condition="job.slowdown > 30 for 5m",
        severity="warning",
    )
    channel = alerts.add_channel(lead, "vision", "on call", "mail", "oncall@example.org")
    return {"alert": alert.id, "silence": held.pk, "alert_rule": rule.code, "alert_channel": channel.pk}


def _run_and_report(actor: Any) -> dict[str, Any]:
    laptop = experiments.create_experiment(actor, "vision", "laptop")
    report = reports.create_report(actor, "vision", "First steps", "```chart\nmetric: loss\n```")
    link = reports.create_link(actor, report, 7)
    run = experiments.create_run(actor, laptop, name="notebook")
    experiments.log_points(actor, run, [Points("loss", [1], [2.0], [now_ms()])])
    return {
        "run": run.id,
        "own_experiment": laptop.pk,
        "report": report.id,
        "comment": reports.add_comment(actor, report, "good").pk,
        "read_link": link.link.pk,
        "read_token": link.token,
    }


def sweep_mapping(**changes: Any) -> dict[str, Any]:
    return {
        "name": "learning rates",
        "team": "vision",
        "method": "random",
        "space": {"lr": {"type": "log_uniform", "low": 1e-4, "high": 1e-1}},
        "objective": {"metric": "loss"},
        "budget": {"trials": 10},
        **changes,
    }


def suite_mapping(**changes: Any) -> dict[str, Any]:
    return {
        "name": "held-out", "team": "vision", "command": "evaluate.py", "gpu_type": "cpu",
        "metrics": {"f1": "higher"}, **changes,
    }  # fmt: skip


def endpoint_mapping(**changes: Any) -> dict[str, Any]:
    return {"name": "writer", "team": "vision", "model": "bytelm", "gpu_type": "cpu", **changes}


def _endpoint(actor: Any, version: ModelVersion) -> dict[str, str]:
    row = serving.create(actor, endpoint_mapping(name="watched"))
    watched = {"canary": version, "canary_policy": asdict(CanaryPolicy()), "canary_since_ms": 1}
    Endpoint.objects.filter(id=row.id).update(**watched)
    return {"endpoint": row.name, "endpoint_id": row.id}


def _cycle(cast: Cast, version: ModelVersion) -> dict[str, str]:
    """Of the model of the endpoint that watches a canary; lena set the policy."""
    fields = {"endpoint": "watched", "drift": True, "approve_training": True}
    policy = retraining.set_policy(accounts.actor_of(cast.lead), version.model, fields)
    endpoint = Endpoint.objects.get(name="watched")
    cycle = Cycle.objects.create(
        id="cycle-0000000000000000", model=version.model, spec=policy.spec, author=cast.lead, trigger="drift",
        cause="input.age drifted for 10 min", state="requested", base=version, endpoint=endpoint,
        began_ms=1, since_ms=1,
    )  # fmt: skip
    asked = Prediction.objects.create(
        endpoint=endpoint, model_version=version, request="request-1", at_ms=1, outputs={"output": "cat"}
    )
    return {"cycle": cycle.id, "prediction": asked.request}


def _sweep(actor: Any) -> str:
    sweep, _ = sweeps.create(actor, sweep_mapping())
    outside.ask(actor, sweep.id)
    return sweep.id


def _upload(actor: Any, kind: str) -> str:
    upload = artifacts.start_upload(actor, "vision", kind, "bytes")
    artifacts.receive_file(actor, upload.id, f"{kind}.bin", io.BytesIO(kind.encode()))
    return upload.id


def _run_upload(actor: Any, run_id: str) -> str:
    """Of a large file of the run, beside a small one."""
    run = Run.objects.get(id=run_id)
    experiments.put_file(actor, run, "notes.txt", io.BytesIO(b"notes"))
    upload = experiments.start_upload(actor, run, "large.bin", 1)
    experiments.receive_part(upload.id, 1, io.BytesIO(b"large"))
    return upload.id


def _run_value(actor: Any, run_id: str) -> int:
    image = rich_values.checked(key="sample", step=1, index=0, kind="image", at_ms=1, data=PNG)
    return experiments.log_value(actor, Run.objects.get(id=run_id), image).pk


def _artifact(actor: Any, run_id: str) -> RunArtifact:
    manifest = _manifest(actor, "code")
    return RunArtifact.objects.create(run_id=run_id, name="code", manifest_id=manifest, created_ms=1)


def _manifest(actor: Any, kind: str) -> str:
    return artifacts.complete_upload(actor, _upload(actor, kind)).id


def _leftover(actor: Any) -> int:
    upload = _upload(actor, "dataset")
    return Leftover.objects.create(
        kind="upload", item=upload, team_id="vision", name="bytes", bytes=7, found_ms=now_ms()
    ).pk


def _access_request(cast: Cast) -> str:
    return datasets.request_access(accounts.actor_of(cast.lead), "vision", "stdlib", "vision", "report").id
