"""A script can say anything; nothing of it may stop what comes after it."""

import json
from base64 import b64encode
from collections.abc import Callable

import pytest
from django.conf import settings

from platform_core.distribution.content.manifest import ManifestBuilder, to_json
from platform_core.jobs.job import MemberPhase
from tests.webapp.jobs.conftest import *  # noqa: F403  the small cluster
from tests.webapp.jobs.conftest import say, tick
from tests.webapp.metrics.reading import rows
from tests.webapp.world import PNG
from trainmaster_wire.agent.v1 import uplink_pb2
from webapp.base.identity import now_ms
from webapp.checkpoints import measures
from webapp.checkpoints.models import Checkpoint
from webapp.events.models import Event
from webapp.experiments.models import RichValue, Run
from webapp.jobs.models import Attempt, Job, Member
from webapp.rpc.uplink import _take

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture
def job(submit: Callable[..., Job]) -> Job:
    job = submit(num_gpus=1)
    tick()
    say(job, MemberPhase.RUNNING)
    return job


def place(job: Job, name: str = "checkpoint-0-step-5") -> str:
    """Where the job's agent uploads to."""
    return f"{settings.STORE_URL}/checkpoint/{job.id}/{Attempt.objects.get(job=job).id}/{name}"


def batch(job: Job, source: int, data: bytes = b"", **parts: object) -> uplink_pb2.Ack:
    attempt = Attempt.objects.get(job=job)
    node = Member.objects.get(attempt=attempt).node_id
    message = uplink_pb2.Batch(
        attempt_id=attempt.id, source=source, data=data, next_offset=len(data), **parts
    )
    return _take(node, message)


@pytest.mark.parametrize(
    "odd",
    [
        {"kind": "init", "at_ms": 1, "params": {"nul": "a\0b", "rate": float("nan"), "big": 10**400}},
        {"kind": "init", "at_ms": 1, "step_total": 10**30},
        {"kind": "init", "at_ms": 1, "params": ["not", "a", "mapping"]},
        {"kind": "init", "at_ms": 1, "packages": "x\0", "seed": float("inf")},
        {"kind": "metrics", "at_ms": 2, "step": 10**30, "values": {"loss": 1.0}},
        {"kind": "metrics", "at_ms": 10**30, "step": 2, "values": {"loss": 1.0}},
        {"kind": "metrics", "at_ms": 2, "step": 2, "values": {"loss": 10**400}},
        {"kind": "metrics", "at_ms": 2, "step": 2, "values": {"a\0b": 1.0}},
        {"kind": "metrics", "at_ms": 2, "step": 2, "values": [1.0]},
        {"kind": "checkpoint_started", "at_ms": 2, "step": 10**30},
    ],
)
def test_an_odd_line_does_not_stop_the_lines_after_it(job: Job, odd: dict[str, object]) -> None:
    good = {"kind": "metrics", "at_ms": 3, "step": 3, "values": {"loss": 2.0}}
    lines = "\n".join(json.dumps(line) for line in (odd, good)).encode()
    assert batch(job, uplink_pb2.Batch.SPOOL, lines).error == ""
    assert (3, 2.0) in [(step, value) for step, value, _ in rows(job.id, "loss")]


def failures(job: Job) -> list[tuple[int, str]]:
    told = Event.objects.filter(kind="CheckpointFailed", subject_id=job.id).order_by("id")
    return [(event.data["step"], event.cause) for event in told]


def test_a_checkpoint_that_could_not_be_written_is_told_once_and_counted(job: Job) -> None:
    full = {"kind": "checkpoint_failed", "at_ms": now_ms(), "step": 50, "why": "No space left on device"}
    started = {"kind": "checkpoint_started", "at_ms": 1, "step": 50}
    for line in (started, full, full, {**full, "step": 60}):
        assert batch(job, uplink_pb2.Batch.SPOOL, json.dumps(line).encode()).error == ""
    said = "could not save a checkpoint at step {}: No space left on device"
    assert failures(job) == [(50, said.format(50)), (60, said.format(60))]
    assert Job.objects.get(id=job.id).state == "running"
    saves = measures.saves(0, now_ms() + 1)
    assert (saves.refused, saves.failed, saves.all) == (2, 2, 2)


def test_parameters_that_no_column_takes_are_kept_as_far_as_they_can_be(job: Job) -> None:
    told = {"kind": "init", "at_ms": 1, "params": {"text": "a\0b", "rate": float("nan"), "lr": 0.1}}
    batch(job, uplink_pb2.Batch.SPOOL, json.dumps(told).encode())
    parameters = Run.objects.get(id=job.id).parameters
    assert {name: parameters[name] for name in told["params"]} == {"text": "a�b", "rate": "nan", "lr": 0.1}  # type: ignore[attr-defined]


def test_a_checkpoint_of_a_diverged_model_is_registered(job: Job) -> None:
    builder = ManifestBuilder("checkpoint")
    builder.feed("state.pt", b"weights")
    uploaded = uplink_pb2.CheckpointUploaded(
        step=5, manifest_json=to_json(builder.finish()), source_url=place(job),
        metrics_json=json.dumps({"loss": float("nan"), "lr": 0.1}), saved_at_ms=5, etags=["its-etag"],
    )  # fmt: skip
    assert batch(job, uplink_pb2.Batch.CHECKPOINT, checkpoint=uploaded).error == ""
    kept = Checkpoint.objects.select_related("manifest").get()
    assert (kept.metrics, kept.manifest.etags) == ({"lr": 0.1}, ["its-etag"])


def test_what_the_database_refuses_is_answered_so_that_the_agent_goes_on(job: Job) -> None:
    artifact = uplink_pb2.ArtifactUploaded(name="a\0b", manifest_json="{}", source_url=place(job))
    assert batch(job, uplink_pb2.Batch.ARTIFACT, artifact=artifact).error


def test_lineage_with_a_nul_is_kept_with_a_mark(owner: User) -> None:  # noqa: F405
    from tests.webapp.jobs.conftest import SPEC
    from webapp.accounts.queries import actor_of
    from webapp.jobs import services

    job, _ = services.submit(actor_of(owner), SPEC, lineage={"git_diff": "a\0b"})
    assert job.lineage == {"git_diff": "a�b"}


def test_values_of_a_job_are_kept_once_and_html_never(job: Job) -> None:
    file = uplink_pb2.ValueFile(key="sample", step=3, index=0, kind="image", at_ms=5)
    for _ in range(2):
        assert batch(job, uplink_pb2.Batch.VALUE, PNG, value=file).error == ""
    assert "first bytes" in batch(job, uplink_pb2.Batch.VALUE, b"<html>", value=file).error
    table = {"kind": "value", "type": "table", "key": "rows", "step": 1, "at_ms": 1}
    table |= {"document": {"columns": ["a"], "rows": [[1]]}}
    inline = {
        "kind": "value",
        "type": "image",
        "key": "plot",
        "step": 1,
        "at_ms": 1,
        "data": b64encode(PNG).decode(),
    }
    lines = "\n".join(json.dumps(line) for line in (table, inline, {**table, "type": "html"})).encode()
    assert batch(job, uplink_pb2.Batch.SPOOL, lines).error == ""
    kept = RichValue.objects.filter(run=job.id).order_by("key")
    assert [(value.key, value.kind, value.size) for value in kept] == [
        ("plot", "image", len(PNG)),
        ("rows", "table", 0),
        ("sample", "image", len(PNG)),
    ]


def test_tags_that_a_script_sets_are_those_of_its_run(job: Job) -> None:
    told = {"kind": "tags", "at_ms": 1, "tags": {"stage": "try"}}
    batch(job, uplink_pb2.Batch.SPOOL, json.dumps(told).encode())
    assert Run.objects.get(id=job.id).tags["stage"] == "try"
