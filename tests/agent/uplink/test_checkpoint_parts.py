"""The part of a checkpoint that this node saved goes into the store file by file, each once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType

import pytest
import torch

from agent import artifacts
from agent.job_files import JobPath
from agent.uplink.batch import Ack, Batch
from agent.uplink.checkpoint_files import YIELDING_SHARE, Pace, PartUploader, description_of
from agent.uplink.cursors import Source
from platform_core.checkpointing.parts import Merged, Part, merge
from platform_core.distribution.content.manifest import from_json
from platform_core.errors import TrainmasterError
from tests.agent.uplink.bench import Bench
from trainmaster.checkpoints.verification import verify
from trainmaster.environment import JobEnvironment
from trainmaster.run import Run
from trainmaster.setting import setting_of


def save(
    bench: Bench, step: int, files: dict[str, bytes], more: Mapping[str, object] = MappingProxyType({})
) -> Path:
    """As the SDK of the node's first rank."""
    name = f"step-{step:08d}"
    place = bench.folder.checkpoints / name
    for path, data in files.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_bytes(data)
    listed = [
        {"path": path, "size": len(data), "sha256": hashlib.sha256(data).hexdigest(), "chunks": []}
        for path, data in files.items()
    ]
    document = {
        "format": 2,
        "step": step,
        "nodes": 2,
        "node_rank": 1,
        "world_size": 4,
        "write_ms": 40,
        "files": listed,
    }
    (place / "trainmaster.json").write_text(json.dumps({**document, **more}))
    bench.event(kind="checkpoint", step=step, path=f"checkpoints/{name}", metrics={"loss": 1.0})
    return place


@pytest.fixture
def uploading(bench: Bench) -> Bench:
    bench.uploader = partial(artifacts.upload_with, PartUploader(Pace(0)))
    return bench


def stored(tmp_path: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (tmp_path / "store").rglob("*") if path.is_file()}


def test_the_files_lie_under_their_digests_and_the_part_names_them(uploading: Bench, tmp_path: Path) -> None:
    files = {"a/0.bin": b"weights", ".metadata": b"m", "empty": b""}
    save(uploading, 10, files)
    uploading.drain()
    (batch,) = uploading.server.checkpoints()
    part = batch.checkpoint
    assert part is not None
    assert (part.format, part.node_rank, part.nodes, part.world_size, part.write_ms) == (2, 1, 2, 4, 40)
    assert part.source_url.endswith("/by-sha256")
    assert {entry.path for entry in from_json(part.manifest_json).files} == set(files)
    assert stored(tmp_path) == {hashlib.sha256(data).hexdigest(): data for data in files.values()}


def test_an_unchanged_file_is_not_written_again(uploading: Bench, tmp_path: Path) -> None:
    save(uploading, 10, {"frozen": b"f" * 100, "head": b"10"})
    uploading.drain()
    frozen = next(path for path in (tmp_path / "store").rglob(hashlib.sha256(b"f" * 100).hexdigest()))
    before = frozen.stat().st_ino
    uploading.new_agent()  # also an agent that has forgotten what it sent
    save(uploading, 20, {"frozen": b"f" * 100, "head": b"20"})
    uploading.drain()
    assert frozen.stat().st_ino == before
    assert len(uploading.server.checkpoints()) == 2
    assert len(stored(tmp_path)) == 3


def test_a_file_that_changed_after_it_was_saved_is_not_stored_under_its_digest(
    uploading: Bench, tmp_path: Path
) -> None:
    place = save(uploading, 10, {"head": b"saved"})
    (place / "head").write_bytes(b"other")
    uploading.drain()
    assert uploading.server.checkpoints() == []
    assert stored(tmp_path) == {}
    assert "head is not what was saved: its SHA-256 differs" in uploading.notes()


@pytest.mark.parametrize(
    "more",
    [
        {"files": [{"path": "../x", "size": 1, "sha256": "0"}]},
        {"nodes": -1},
        {"files": 3},
        {"node_rank": [1]},
    ],
)
def test_a_description_that_makes_no_sense_is_refused_with_a_sentence(
    uploading: Bench, more: dict[str, object]
) -> None:
    save(uploading, 10, {"head": b"saved"}, more)
    uploading.drain()
    assert uploading.server.checkpoints() == []
    assert "trainmaster.json of the checkpoint does not make sense" in uploading.notes()


def test_when_the_server_misses_a_file_it_is_uploaded_again(uploading: Bench, tmp_path: Path) -> None:
    save(uploading, 10, {"head": b"10"})
    refused: list[Batch] = []

    def lose(batch: Batch) -> Ack | None:
        if batch.source is not Source.CHECKPOINT or refused:
            return None
        refused.append(batch)
        for path in (tmp_path / "store").rglob("*"):
            if path.is_file():
                path.unlink()
        return Ack(batch.attempt_id, batch.rank, batch.source, batch.offset)

    uploading.server.answers = lose
    uploading.drain()
    assert len(refused) == 1
    assert len(uploading.server.checkpoints()) == 1
    assert list(stored(tmp_path).values()) == [b"10"]


def test_format_1_is_not_a_part(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "trainmaster.json").write_text('{"format": 1, "files": []}')
    assert description_of(JobPath(tmp_path, "c")) is None
    (tmp_path / "c" / "trainmaster.json").write_text('{"format": 2, "files": [], "nodes": 1e400}')
    with pytest.raises(TrainmasterError):
        description_of(JobPath(tmp_path, "c"))


def test_uploads_keep_to_their_share_and_yield_to_a_model() -> None:
    pace = Pace(100.0)
    assert [pace.wait_s(100, now=5.0), pace.wait_s(50, now=5.0), pace.wait_s(1, now=7.0)] == [0.0, 1.0, 0.0]
    pace.yields = True
    assert pace.rate == 100.0 * YIELDING_SHARE
    unlimited = Pace(0)
    assert unlimited.wait_s(1 << 40, now=0.0) == 0.0
    unlimited.yields = True
    assert unlimited.rate > 0


def test_what_the_sdk_saves_is_uploaded_and_read_again_by_the_sdk(uploading: Bench, tmp_path: Path) -> None:
    environment = JobEnvironment(
        folder=uploading.folder.path, attempt=uploading.folder.attempt_id, job="job-1"
    )
    run = Run(environment, setting_of(environment, "train", ""), lambda: 1_000)
    run.save_checkpoint({"weight": torch.arange(2_000_000, dtype=torch.float32)}, 10, {})
    run.finish()
    uploading.drain()
    (batch,) = uploading.server.checkpoints()
    manifest = from_json(batch.checkpoint.manifest_json)
    merged = merge(10, [Part(0, 1, 1, manifest, saved_at_ms=1_000)])
    assert isinstance(merged, Merged)
    fetched, kept = tmp_path / "fetched", stored(tmp_path)
    for entry in manifest.files:
        (fetched / entry.path).parent.mkdir(parents=True, exist_ok=True)
        (fetched / entry.path).write_bytes(kept[entry.sha256])
    (fetched / "trainmaster.json").write_bytes(merged.description)
    assert {file.path for file in verify(fetched).files} == {entry.path for entry in manifest.files}
