"""What nobody has used for long moves to the cold store, is read there, and comes back when it is used."""

import io
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from platform_core.distribution.content.layout import BY_DIGEST, stored_path
from platform_core.distribution.content.manifest import ManifestBuilder, from_document
from platform_core.errors import TrainmasterError
from platform_core.jobs.job import MemberPhase
from platform_core.units import DAY_MS
from tests.webapp.conftest import Cast
from tests.webapp.jobs.conftest import cluster, say, submit, tick
from trainmaster.store import open_store
from webapp.accounts.queries import actor_of
from webapp.artifacts import queries as artifacts
from webapp.artifacts import services as artifact_services
from webapp.artifacts.models import Manifest
from webapp.base.identity import now_ms
from webapp.checkpoints import deletion
from webapp.checkpoints.models import Checkpoint
from webapp.datasets import services as datasets
from webapp.datasets import sources
from webapp.datasets.models import DatasetSnapshot
from webapp.events.models import Event
from webapp.jobs import logs
from webapp.jobs import services as job_services
from webapp.jobs.models import Attempt, Job, LogChunk, Member
from webapp.nodes.models import Node
from webapp.registry import services as registry
from webapp.storage import queries, scrub, services, tiers
from webapp.storage.models import Damage

__all__ = ["cluster", "submit"]
FILE = sha256(b"content").hexdigest()  # as the versions of a dataset share it


@pytest.fixture
def stores(settings: Any, tmp_path: Path) -> tuple[Path, Path]:
    hot, cold = tmp_path / "hot", tmp_path / "cold"
    settings.STORE_URL, settings.COLD_STORE_URL = hot.as_uri(), cold.as_uri()
    settings.COLD_AFTER_DAYS = 30
    return hot, cold


def old_dataset(cast: Cast, days: int = 31) -> Manifest:
    upload = artifact_services.start_upload(actor_of(cast.owner), "vision", "dataset", "faces")
    artifact_services.receive_file(actor_of(cast.owner), upload.id, "part 1/a.bin", io.BytesIO(b"content"))
    row = artifact_services.complete_upload(actor_of(cast.owner), upload.id)
    datasets.add_snapshot(actor_of(cast.owner), "vision", "faces", row.id, "train")
    Manifest.objects.filter(id=row.id).update(created_ms=now_ms() - days * DAY_MS)
    return Manifest.objects.get(id=row.id)


def content(manifest_id: str) -> bytes:
    row = Manifest.objects.get(id=manifest_id)
    return b"".join(open_store(row.source_url).stream_range(FILE, 0, 7))


def days_pass(row: Manifest, days: int) -> None:
    now = Manifest.objects.get(id=row.id)
    Manifest.objects.filter(id=row.id).update(
        moved_ms=now.moved_ms - days * DAY_MS, used_ms=now.used_ms - days * DAY_MS
    )


def test_an_unused_dataset_moves_and_its_old_files_go_a_day_later(
    cast: Cast, stores: tuple[Path, Path]
) -> None:
    hot, cold = stores
    row, young = old_dataset(cast), None
    assert tiers.move() == 1
    assert content(row.id) == b"content"
    assert len(list(cold.rglob(FILE))) == 1
    assert len(list(hot.rglob(FILE))) == 1
    assert "unused for 30 days, to the cold store" in Event.objects.get(kind="FilesMoved").cause
    assert tiers.move() == 0
    days_pass(row, 2)
    assert tiers.move() == 0
    assert list(hot.rglob(FILE)) == []
    assert young is None


def test_a_used_one_stays_and_a_cold_one_comes_back_when_it_is_used(
    cast: Cast, stores: tuple[Path, Path]
) -> None:
    hot, cold = stores
    row = old_dataset(cast)
    artifact_services.note_use([row.id])
    assert tiers.move() == 0
    Manifest.objects.filter(id=row.id).update(used_ms=0)
    assert tiers.move() == 1
    days_pass(row, 2)
    tiers.move()
    artifact_services.note_use([row.id])
    assert tiers.move() == 1
    assert Manifest.objects.get(id=row.id).source_url.startswith(hot.as_uri())
    assert content(row.id) == b"content"
    days_pass(row, 2)
    tiers.move()
    assert list(cold.rglob(FILE)) == []


def test_cold_bytes_are_accounted_and_priced_by_their_tier(
    cast: Cast, stores: tuple[Path, Path], settings: Any
) -> None:
    settings.STORAGE_PRICE, settings.COLD_STORAGE_PRICE = 1_000_000, 0
    old_dataset(cast)
    services.account()
    (before,) = queries.teams(["vision"])
    tiers.move()
    services.account()
    (after,) = queries.teams(["vision"])
    assert before.month_micro_dollars > after.month_micro_dollars == 0
    assert [(part.bytes, part.cold_bytes) for part in after.parts if part.kind == "dataset"] == [(7, 7)]


def test_bytes_that_are_damaged_are_not_moved(cast: Cast, stores: tuple[Path, Path]) -> None:
    row = old_dataset(cast)
    next(stores[0].rglob(FILE)).write_bytes(b"changed")
    assert tiers.move() == 0
    assert Manifest.objects.get(id=row.id).source_url == row.source_url


def test_a_cold_store_that_is_away_keeps_nothing_from_being_used(
    cast: Cast, stores: tuple[Path, Path], settings: Any, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    settings.COLD_STORE_URL = (tmp_path / "file").as_uri()
    row = old_dataset(cast)
    assert tiers.move() == 0
    assert content(row.id) == b"content"


def test_files_in_the_cold_store_are_of_the_store_and_are_deleted_with_their_manifest(
    cast: Cast, stores: tuple[Path, Path]
) -> None:
    row = old_dataset(cast)
    Manifest.objects.filter(id=row.id).update(kind="dataset")
    tiers.move()
    url = Manifest.objects.get(id=row.id).source_url
    assert artifacts.is_in_store(url)
    DatasetSnapshot.objects.all().delete()
    assert artifact_services.discard_files(row.id)
    assert [path for folder in stores for path in folder.rglob(FILE)] == []


def test_without_a_cold_store_nothing_moves(cast: Cast, stores: tuple[Path, Path], settings: Any) -> None:
    settings.COLD_STORE_URL = ""
    old_dataset(cast)
    assert tiers.move() == 0


def running_job(submit: Callable[..., Job]) -> Job:
    job = submit(num_gpus=1, dataset=DatasetSnapshot.objects.get().id, purpose="train")
    tick()
    say(job, MemberPhase.RUNNING)
    Job.objects.filter(id=job.id).update(started_ms=now_ms() - 40 * DAY_MS)
    return job


def test_what_a_running_job_reads_does_not_move(
    cast: Cast, cluster: list[Node], submit: Callable[..., Job], stores: tuple[Path, Path]
) -> None:
    old_dataset(cast)
    job = running_job(submit)
    assert tiers.move() == 0
    say(job, MemberPhase.EXITED, 0)
    assert tiers.move() == 1


def test_the_old_files_stay_while_a_job_that_began_before_the_move_runs(
    cast: Cast, cluster: list[Node], submit: Callable[..., Job], stores: tuple[Path, Path]
) -> None:
    hot, _ = stores
    row = old_dataset(cast)
    tiers.move()
    job = running_job(submit)
    days_pass(row, 2)
    tiers.move()
    assert len(list(hot.rglob(FILE))) == 1
    say(job, MemberPhase.EXITED, 0)
    tiers.move()
    assert list(hot.rglob(FILE)) == []


def test_a_cold_store_whose_disk_is_not_mounted_is_no_damage(cast: Cast, stores: tuple[Path, Path]) -> None:
    hot, cold = stores
    row = old_dataset(cast)
    tiers.move()
    days_pass(row, 2)
    Manifest.objects.filter(id=row.id).update(moved_from="")
    cold.rename(cold.with_name("unmounted"))
    assert (hot / "dataset").is_dir()
    scrub.scrub()
    assert not Damage.objects.exists()


def test_nobody_registers_what_lies_in_the_cold_store(
    cast: Cast, stores: tuple[Path, Path], settings: Any
) -> None:
    _, cold = stores
    settings.SOURCE_PREFIXES = [cold.parent.as_uri()]
    for url in (f"{cold.as_uri()}/dataset", cold.parent.as_uri()):
        with pytest.raises(TrainmasterError, match="the platform's own store"):
            sources.check(url)
        with pytest.raises(TrainmasterError, match="the platform's own store"):
            registry.check_source(url)


def saved(cast: Cast, submit: Callable[..., Job], stores: tuple[Path, Path], steps: int) -> Job:
    """A job that has ended long ago and saved checkpoints, which share a file under its digest."""
    job = submit(num_gpus=1)
    url = f"{stores[0].as_uri()}/checkpoint/{job.id}/{BY_DIGEST}"
    for step in range(1, steps + 1):
        builder = ManifestBuilder("checkpoint")
        for name, content in (("shared.bin", b"shared"), ("own.bin", f"step {step}".encode())):
            builder.feed(name, content)
        document = builder.finish()
        for entry in document.files:
            data = b"shared" if entry.path == "shared.bin" else f"step {step}".encode()
            open_store(url).write(entry.sha256, [data], len(data))
        row = artifact_services.register(document, "vision", url)
        Manifest.objects.filter(id=row.id).update(created_ms=now_ms() - 40 * DAY_MS)
        Checkpoint.objects.create(
            id=f"ckpt-{step}", job=job, attempt=1, step=step, manifest=row, saved_ms=now_ms(), bytes=12
        )
    cancel(cast, job)
    return job


def cancel(cast: Cast, job: Job) -> None:
    job_services.cancel(actor_of(cast.owner), job.id)
    Job.objects.filter(id=job.id).update(finished_ms=now_ms() - 40 * DAY_MS)


def bytes_of(manifest_id: str, path: str) -> bytes:
    row = Manifest.objects.get(id=manifest_id)
    entry = next(entry for entry in from_document(row.document).files if entry.path == path)
    return open_store(row.source_url).read_range(stored_path(row.source_url, entry), 0, entry.size)


def test_checkpoints_of_an_ended_job_move_and_what_others_share_stays(
    cast: Cast, cluster: list[Node], submit: Callable[..., Job], stores: tuple[Path, Path]
) -> None:
    hot, cold = stores
    saved(cast, submit, stores, 2)
    first, second = (row.manifest for row in Checkpoint.objects.order_by("step"))
    artifact_services.note_use([second.id])
    assert tiers.move() == 1
    assert (bytes_of(first.id, "shared.bin"), bytes_of(first.id, "own.bin")) == (b"shared", b"step 1")
    assert Manifest.objects.get(id=first.id).source_url.startswith(f"{cold.as_uri()}/checkpoint/")
    days_pass(first, 2)
    tiers.move()
    assert bytes_of(second.id, "shared.bin") == b"shared"
    assert len(list(hot.rglob("*"))) - len([path for path in hot.rglob("*") if path.is_dir()]) == 2
    artifact_services.note_use([first.id])
    assert tiers.move() == 1
    assert bytes_of(first.id, "own.bin") == b"step 1"
    assert Manifest.objects.get(id=first.id).source_url.startswith(hot.as_uri())


def test_a_cold_checkpoint_is_deleted_where_it_lies(
    cast: Cast, cluster: list[Node], submit: Callable[..., Job], stores: tuple[Path, Path]
) -> None:
    saved(cast, submit, stores, 1)
    tiers.move()
    row = Checkpoint.objects.get()
    assert deletion.remove(row)
    days_pass(row.manifest, 2)
    tiers.move()
    assert [path for folder in stores for path in folder.rglob("*") if path.is_file()] == []


def test_logs_of_ended_jobs_move_and_are_read_where_they_are(
    cast: Cast, cluster: list[Node], submit: Callable[..., Job], stores: tuple[Path, Path]
) -> None:
    hot, cold = stores
    job = submit(num_gpus=1)
    tick()
    logs.ingest(Attempt.objects.get(job=job), 0, 0, 12, "a first line\n", now_ms())
    say(job, MemberPhase.EXITED, 0)
    Job.objects.filter(id=job.id).update(finished_ms=now_ms() - 40 * DAY_MS)
    Member.objects.update(drained=True)
    logs.archive(now_ms())
    before = LogChunk.objects.get()
    tiers.move()
    assert (list(hot.rglob("*.log")), len(list(cold.rglob("*.log")))) == ([], 1)
    assert [line["text"] for line in logs.read(job.id).lines] == ["a first line"]
    assert logs._text(before).endswith("a first line\n")  # of a reader that began before the move
    services.account()
    (team,) = queries.teams(["vision"])
    assert [(part.bytes, part.cold_bytes) for part in team.parts if part.kind == "logs"] == [(12, 12)]
    assert logs.delete(now_ms()) == 1
    assert list(cold.rglob("*.log")) == []
