"""Parts of a checkpoint arrive from several nodes; shared files go with the last checkpoint that needs them."""

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.test import override_settings

from platform_core.distribution.content.manifest import FileDigester, join, to_json
from platform_core.errors import TrainmasterError
from platform_core.jobs.job import MemberPhase
from tests.webapp.jobs.conftest import *  # noqa: F403  the small cluster
from tests.webapp.jobs.conftest import say, tick
from trainmaster.store import open_store
from trainmaster.store.copying import fetch
from trainmaster_wire.agent.v1 import uplink_pb2
from webapp.artifacts import queries as artifacts
from webapp.artifacts import services as artifact_services
from webapp.artifacts.models import SharedFolder
from webapp.checkpoints import queries, retention, services, shared_files
from webapp.checkpoints.models import Checkpoint, CheckpointPart
from webapp.events.models import Event
from webapp.jobs.models import Job, Member
from webapp.rpc.uplink import _take

pytestmark = pytest.mark.usefixtures("cluster")
FROZEN = b"frozen weights" * 1000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Path]:
    with override_settings(STORE_URL=f"file://{tmp_path}"):
        yield tmp_path


@pytest.fixture
def job(submit: Callable[..., Job], store: Path) -> Job:
    """A gang of two nodes that runs and keeps one checkpoint."""
    job = submit(num_gpus=4, checkpoint={"keep_last": 1})
    tick()
    say(job, MemberPhase.RUNNING)
    job.refresh_from_db()
    assert Member.objects.filter(attempt__job=job).count() == 2
    return job


def files(step: int, rank: int) -> dict[str, bytes]:
    return {
        f"rank-{rank}/frozen.bin": FROZEN + bytes([rank]),
        f"rank-{rank}/head.bin": f"{step} {rank}".encode(),
    }


def put(job: Job, contents: dict[str, bytes]) -> int:
    """Uploads what the store lacks, as an agent does. Returns the bytes that went up."""
    place, sent = open_store(shared_files.url_of(job.id)), 0
    for data in contents.values():
        digest = hashlib.sha256(data).hexdigest()
        if not place.exists(digest):
            sent += place.write(digest, [data])
    return sent


def announce(
    job: Job, step: int, rank: int, contents: dict[str, bytes] | None = None, **changes: object
) -> uplink_pb2.Ack:
    made = []
    for path, data in (contents or files(step, rank)).items():
        digester = FileDigester(path)
        digester.feed(data)
        made.append(digester.finish())
    uploaded = uplink_pb2.CheckpointUploaded(
        step=step, format=2, node_rank=rank, nodes=2, world_size=4, saved_at_ms=1000 * step, began_at_ms=900 * step,
        blocking_ms=5, write_ms=50, metrics_json=json.dumps({"loss": 0.5}),
        manifest_json=to_json(join("checkpoint", made)), source_url=shared_files.url_of(job.id),
    )  # fmt: skip
    for name, value in changes.items():
        setattr(uploaded, name, value)
    member = Member.objects.get(attempt__job=job, attempt__number=job.attempt, rank=rank)
    batch = uplink_pb2.Batch(
        attempt_id=member.attempt_id,
        source=uplink_pb2.Batch.CHECKPOINT,
        checkpoint=uploaded,
        offset=7,
        next_offset=9,
    )
    return _take(member.node_id, batch)


def save(job: Job, step: int) -> Checkpoint:
    for rank in (0, 1):
        put(job, files(step, rank))
        ack = announce(job, step, rank)
        assert (ack.error, ack.next_offset) == ("", 9)
    return Checkpoint.objects.get(job=job, step=step)


def stored(job: Job) -> set[str]:
    return {entry.path for entry in open_store(shared_files.url_of(job.id)).list()}


def test_a_checkpoint_exists_with_the_part_of_the_last_node(job: Job, tmp_path: Path) -> None:
    put(job, files(10, 1))
    announce(job, 10, 1)
    job.refresh_from_db()
    assert (queries.of_job(job.id), job.latest_checkpoint) == ([], "")
    put(job, files(10, 0))
    announce(job, 10, 0)
    (row,) = queries.of_job(job.id)
    job.refresh_from_db()
    assert (job.latest_checkpoint, job.latest_step) == (row.id, 10)
    assert (row.nodes, row.blocking_ms, row.write_ms, row.metrics) == (2, 5, 50, {"loss": 0.5})
    assert not CheckpointPart.objects.exists()
    reference = queries.reference(row.id)
    fetch(artifacts.manifest(row.manifest_id), reference.source_url, tmp_path / "resume")
    for rank in (0, 1):
        for path, data in files(10, rank).items():
            assert (tmp_path / "resume" / path).read_bytes() == data
    assert json.loads((tmp_path / "resume" / "trainmaster.json").read_text())["world_size"] == 4


def test_what_is_announced_twice_or_late_changes_nothing(job: Job) -> None:
    first = save(job, 10)
    for rank in (0, 1, 0):
        assert announce(job, 10, rank).error == ""
    assert [row.id for row in queries.of_job(job.id)] == [first.id]
    assert Event.objects.filter(kind="CheckpointSaved").count() == 1
    assert not CheckpointPart.objects.exists()


def test_a_part_whose_file_is_not_in_the_store_is_asked_for_again(job: Job) -> None:
    ack = announce(job, 10, 0)
    assert (ack.error, ack.next_offset) == ("", 7), "the agent goes on from before it"
    assert not CheckpointPart.objects.exists()


def test_an_unchanged_file_is_sent_once_and_stays_while_a_living_checkpoint_needs_it(
    job: Job, tmp_path: Path
) -> None:
    save(job, 10)
    assert put(job, files(20, 0)) < 100, "the frozen weights are there"
    second = save(job, 20)
    heads = {hashlib.sha256(files(10, rank)[f"rank-{rank}/head.bin"]).hexdigest() for rank in (0, 1)}
    assert heads <= stored(job)
    assert services.retain() == 1
    assert not heads & stored(job)
    assert _digests(second) <= stored(job)
    fetch(artifacts.manifest(second.manifest_id), shared_files.url_of(job.id), tmp_path / "resume")


def test_what_checkpoints_share_counts_once_and_stays_with_the_rest(job: Job) -> None:
    def held() -> int:
        return sum(entry.size for entry in open_store(shared_files.url_of(job.id)).list())

    first, second = save(job, 10), save(job, 20)
    assert (retention.bytes_of(job).job, retention.bytes_of(job).team) == (held(), held())
    assert held() < first.bytes + second.bytes
    before, freed = held(), artifacts.freed_by([first.manifest_id])
    assert 0 < freed < len(FROZEN)
    assert services.retain() == 1
    assert held() == before - freed
    assert retention.bytes_of(job).job == artifacts.stored_of("vision", "checkpoint") == held()


def _digests(row: Checkpoint) -> set[str]:
    return {entry.sha256 for entry in artifacts.manifest(row.manifest_id).files}


def test_a_file_of_a_part_that_waits_for_the_others_is_not_deleted(job: Job) -> None:
    save(job, 10)
    old = files(10, 0)  # saved again at step 30, by one node so far
    announce(job, 30, 0, old)
    save(job, 20)
    services.retain()
    assert {hashlib.sha256(data).hexdigest() for data in old.values()} <= stored(job)


def test_a_file_that_is_deleted_while_a_part_is_on_its_way_is_uploaded_again(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent finds the file in the store and does not send it; before its word is kept, retention deletes it."""
    save(job, 10)
    save(job, 20)
    again = files(10, 0)
    look = shared_files.missing

    def look_then_delete(*about: object) -> list[str]:
        found = look(*about)  # type: ignore[arg-type]
        monkeypatch.setattr(shared_files, "missing", look)
        services.retain()
        return found

    monkeypatch.setattr(shared_files, "missing", look_then_delete)
    assert announce(job, 30, 0, again).next_offset == 7
    assert put(job, again) > 0, "it had gone"
    assert announce(job, 30, 0, again).next_offset == 9
    assert CheckpointPart.objects.get().step == 30


def test_a_part_with_a_file_that_is_being_deleted_waits(job: Job) -> None:
    save(job, 10)
    digest = hashlib.sha256(b"10 0").hexdigest()
    SharedFolder.objects.filter(source_url=shared_files.url_of(job.id)).update(doomed=[digest])
    assert announce(job, 30, 0, {"head.bin": b"10 0"}).next_offset == 7


def test_a_deletion_that_broke_off_is_finished(job: Job) -> None:
    save(job, 10)
    open_store(shared_files.url_of(job.id)).write("a" * 64, [b"of nobody"])
    artifact_services.doom(shared_files.url_of(job.id), ["a" * 64])
    artifact_services.finish_deletions()
    assert "a" * 64 not in stored(job)
    assert SharedFolder.objects.get().doomed == []


def test_half_a_checkpoint_of_a_lost_node_is_never_listed_and_leaves_the_store(job: Job) -> None:
    whole = save(job, 10)
    put(job, files(20, 0) | {"never": b"announced"})
    announce(job, 20, 0)
    services.sweep()
    assert CheckpointPart.objects.exists(), "its attempt still runs"
    say(job, MemberPhase.LOST, only=1, reason="node-1 was lost")
    say(job, MemberPhase.EXITED, 143, only=0)
    services.sweep()
    assert [row.id for row in queries.of_job(job.id)] == [whole.id]
    assert not CheckpointPart.objects.exists()
    assert stored(job) == _digests(whole)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"node_rank": 2}, "not one of 2 nodes"),
        ({"manifest_json": "{}"}, "field is missing"),
        ({"nodes": 2**31}, "cannot be read"),
    ],
)
def test_a_part_that_cannot_be_is_refused_for_good(job: Job, changes: dict[str, object], why: str) -> None:
    put(job, files(10, 0))
    assert why in announce(job, 10, 0, **changes).error


def test_a_part_elsewhere_in_the_store_is_refused(job: Job) -> None:
    assert announce(job, 10, 0, source_url=f"{shared_files.url_of('job-other')}").error


def test_files_of_a_part_that_clash_with_another_node_are_refused(job: Job) -> None:
    for rank in (0, 1):
        contents = {"same": bytes([rank])}
        put(job, contents)
        ack = announce(job, 10, rank, contents)
    assert "same is there twice" in ack.error
    with pytest.raises(TrainmasterError):
        queries.reference("ckpt-none")
