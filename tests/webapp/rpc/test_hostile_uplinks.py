"""Batches that no agent of ours sends: each is answered for itself, and names no bytes but its own."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client, override_settings

from platform_core.distribution.content.manifest import ManifestBuilder, to_json
from platform_core.jobs.job import MemberPhase
from tests.webapp.jobs.conftest import *  # noqa: F403  the small cluster
from tests.webapp.jobs.conftest import say, tick
from trainmaster_wire.agent.v1 import uplink_pb2
from webapp.accounts.models import User
from webapp.artifacts import services as artifacts
from webapp.artifacts.models import Manifest
from webapp.checkpoints import files as checkpoint_files
from webapp.checkpoints.models import Checkpoint
from webapp.experiments.models import RunArtifact
from webapp.jobs.models import Attempt, Job, Member
from webapp.rpc.uplink import _take

pytestmark = pytest.mark.usefixtures("cluster")
CONTENT = b"weights of another team"
DEEP = "[" * 100_000


@pytest.fixture(autouse=True)
def store(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "store"
    folder.mkdir()
    with override_settings(STORE_URL=f"file://{folder}"):
        yield folder


@pytest.fixture
def job(submit: Callable[..., Job]) -> Job:
    job = submit(num_gpus=1)
    tick()
    say(job, MemberPhase.RUNNING)
    return job


def manifest(kind: str = "checkpoint") -> str:
    builder = ManifestBuilder(kind)
    builder.feed("m.bin", CONTENT)
    return to_json(builder.finish())


def folder_of(job: Job) -> str:
    return f"{settings.STORE_URL}/checkpoint/{job.id}/{Attempt.objects.get(job=job).id}"


def answer(job: Job, **fields: object) -> uplink_pb2.Ack:
    member = Member.objects.get(attempt__job=job)
    return _take(member.node_id, uplink_pb2.Batch(attempt_id=member.attempt_id, **fields))


def saved(job: Job, url: str, step: int = 1, **fields: object) -> uplink_pb2.Ack:
    parts = {"step": step, "manifest_json": manifest(), "source_url": url, **fields}
    uploaded = uplink_pb2.CheckpointUploaded(**parts)
    return answer(job, source=uplink_pb2.Batch.CHECKPOINT, checkpoint=uploaded, next_offset=1)


def handed_over(job: Job, url: str) -> uplink_pb2.Ack:
    uploaded = uplink_pb2.ArtifactUploaded(name="report", manifest_json=manifest("artifact"), source_url=url)
    return answer(job, source=uplink_pb2.Batch.ARTIFACT, artifact=uploaded, next_offset=1)


@pytest.mark.parametrize(
    "spelling",
    [
        "file:///etc",
        "http://127.0.0.1:8323",
        "s3://elsewhere/x",
        "{store}",
        "{store}/secrets",
        "{store}/model/vision",
        "{store}/checkpoint/{job}",
        "{own}",
        "{own}/../att-other/x",
        "{own}/%2e%2e/%2e%2e/%2e%2e/model",
        "{own}/x%00y",
        "{store}/checkpoint/job-of-others/att-of-others/x",
        "",
        "not a url",
    ],
)
def test_a_node_names_no_place_but_the_folder_of_its_own_attempt(
    job: Job, store: Path, spelling: str
) -> None:
    url = spelling.format(store=settings.STORE_URL, own=folder_of(job), job=job.id)
    for ack in (saved(job, url), handed_over(job, url)):
        assert ack.error
        assert ack.next_offset == 1
    assert not Checkpoint.objects.exists()
    assert not RunArtifact.objects.exists()


def test_a_link_in_its_own_folder_leads_a_node_nowhere_else(job: Job, store: Path, tmp_path: Path) -> None:
    own = Path(folder_of(job).removeprefix("file://"))
    own.mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (own / "way-out").symlink_to(tmp_path / "outside")
    assert handed_over(job, f"{folder_of(job)}/way-out").error


def test_what_lies_in_its_own_folder_is_kept_in_one_spelling(job: Job) -> None:
    own = folder_of(job)
    assert saved(job, f"{own.replace('/checkpoint/', '//checkpoint/')}/checkpoint-0-step/").error == ""
    assert Manifest.objects.get().source_url == f"{own}/checkpoint-0-step"


def test_a_node_deletes_no_file_of_another_team_by_naming_its_folder(job: Job, store: Path) -> None:
    model = store / "model" / "vision"
    model.mkdir(parents=True)
    (model / "m.bin").write_bytes(CONTENT)
    assert (
        saved(job, f"{folder_of(job)}/one").error == ""
    )  # the same bytes, so the second place would be deleted
    assert saved(job, f"{settings.STORE_URL}/model/vision", step=2).error
    assert (model / "m.bin").read_bytes() == CONTENT


def test_retention_leaves_files_alone_that_lie_outside_the_store(job: Job, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "m.bin").write_bytes(CONTENT)
    row = artifacts.register_json(manifest(), "vision", f"file://{elsewhere}")
    checkpoint_files.delete(f"file://{elsewhere}", row)
    assert (elsewhere / "m.bin").exists()


def test_a_download_gives_only_what_lies_in_the_store(
    job: Job, tmp_path: Path, owner: User, browser: Callable[[User], Client]
) -> None:
    (tmp_path / "m.bin").write_bytes(CONTENT)
    row = artifacts.register_json(manifest("artifact"), "vision", f"file://{tmp_path}")
    listed = RunArtifact.objects.create(run_id=job.id, name="report", manifest=row, created_ms=1)
    refused = browser(owner).get(f"/jobs/{job.id}/artifacts/{listed.pk}/m.bin")
    assert refused.status_code == 400
    assert CONTENT not in refused.content


@pytest.mark.parametrize(
    "fields",
    [
        {"manifest_json": DEEP},
        {"manifest_json": "no json"},
        {"manifest_json": "[]"},
        {"manifest_json": '{"files": 5}'},
        {"metrics_json": DEEP},
        {"metrics_json": "no json"},
        {"metrics_json": "5"},
        {"metrics_json": '{"a": ' * 500 + "1" + "}" * 500},
        {"step": -(2**63)},
    ],
)
def test_a_checkpoint_that_cannot_be_read_is_refused_for_itself(job: Job, fields: dict[str, object]) -> None:
    assert saved(job, f"{folder_of(job)}/one", **fields).error
    assert saved(job, f"{folder_of(job)}/two", step=7).error == ""


@pytest.mark.parametrize(
    "line",
    [
        '{"kind":"metrics","step":1,"at_ms":1,"values":' + "[" * 60_000,
        '{"kind":"metrics","step":1,"at_ms":1,"values":' + '{"a":' * 900 + "1" + "}" * 901,
        '{"kind":"init","at_ms":1,"params":' + '{"a":' * 900 + "1" + "}" * 901,
    ],
)
def test_a_nested_line_does_not_stop_the_lines_after_it(job: Job, line: str) -> None:
    good = json.dumps({"kind": "metrics", "at_ms": 3, "step": 3, "values": {"loss": 2.0}})
    assert answer(job, source=uplink_pb2.Batch.SPOOL, data=f"{line}\n{good}\n".encode()).error == ""
    assert Job.objects.get(id=job.id).step == 3


@pytest.mark.parametrize(
    "fields",
    [
        {"rank": 2**32 - 1},
        {"offset": 2**64 - 1},
        {"next_offset": 2**64 - 1},
        {"source": 17},
        {"at_ms": -(2**63)},
    ],
)
def test_a_batch_of_no_file_is_refused_and_the_next_is_kept(job: Job, fields: dict[str, int]) -> None:
    log = {"source": uplink_pb2.Batch.LOG, "data": b"line\n", **fields}
    refused = answer(job, **log)
    assert refused.error or fields.keys() == {"at_ms"}
    assert answer(job, source=uplink_pb2.Batch.LOG, data=b"line\n", offset=100, next_offset=105).error == ""
