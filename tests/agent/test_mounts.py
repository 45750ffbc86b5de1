"""A dataset that is read where it lies: an attempt sees the files of its snapshot and no others; nothing is copied."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from agent.attempts.preparation import NodeFacts, PreparationError, prepare
from agent.manifests import Manifests
from agent.mounts import mounting
from agent.work_folder import WorkFolder
from platform_core.errors import TrainmasterError
from platform_core.jobs.ends import EndReason
from platform_core.node.wanted import ArtifactReference, Launch
from tests.agent.launches import LAUNCH
from tests.agent.transfer.rig import Library, manifest_of

FILES = {"train/a.bin": b"first", "b #1.bin": b"second"}
MANIFEST = manifest_of(FILES)


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    place = tmp_path / "shared folder"
    for path, data in {**FILES, "added-later.bin": b"not of the snapshot"}.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_bytes(data)
    return place


async def fetch(launch: Launch, into: Path, other: str = "") -> list[str]:
    """As a preparation does it. Returns what was fetched in the usual way."""
    fetched: list[str] = []
    manifests = Manifests(into.parent, Library(MANIFEST), 2.0)
    usual: Any = lambda artifact, *_: fetched.append(artifact.manifest_id)  # noqa: E731
    assert launch.dataset is not None
    artifact = ArtifactReference(other, "file:///x") if other else launch.dataset
    await asyncio.to_thread(mounting(manifests, launch, usual), artifact, into, lambda _: None)
    return fetched


def wants(shared: Path, mount: bool = True) -> Launch:
    return replace(LAUNCH, dataset=ArtifactReference(MANIFEST.id, shared.as_uri()), mount_dataset=mount)


async def test_the_files_of_the_snapshot_are_linked_and_a_second_time_too(
    shared: Path, tmp_path: Path
) -> None:
    into = tmp_path / "data"
    for _ in range(2):
        assert await fetch(wants(shared), into) == []
    seen = {path.relative_to(into).as_posix(): path for path in into.rglob("*") if path.is_symlink()}
    assert {path: link.read_bytes() for path, link in seen.items()} == FILES
    assert not (into / "added-later.bin").exists()


async def test_what_is_not_the_dataset_or_is_not_to_be_mounted_is_fetched(
    shared: Path, tmp_path: Path
) -> None:
    assert await fetch(wants(shared), tmp_path / "code", other="man-code") == ["man-code"]
    assert await fetch(wants(shared, mount=False), tmp_path / "data") == [MANIFEST.id]


async def test_a_folder_that_this_node_lacks_is_named(shared: Path, tmp_path: Path) -> None:
    shared.rename(tmp_path / "elsewhere")
    with pytest.raises(TrainmasterError, match="is this folder mounted on this node") as caught:
        await fetch(wants(shared), tmp_path / "data")
    assert str(shared) in caught.value.sentence


async def test_a_file_that_was_cut_off_since_is_refused(shared: Path, tmp_path: Path) -> None:
    (shared / "train/a.bin").write_bytes(b"f")
    with pytest.raises(TrainmasterError, match="has 1 bytes, and 5 when its snapshot was made") as caught:
        await fetch(wants(shared), tmp_path / "data")
    assert caught.value.code == "source_changed"


async def test_a_file_that_is_gone_from_a_folder_that_is_mounted_was_changed(
    shared: Path, tmp_path: Path
) -> None:
    (shared / "train/a.bin").unlink()
    with pytest.raises(TrainmasterError, match="is gone since its snapshot was made") as caught:
        await fetch(wants(shared), tmp_path / "data")
    assert caught.value.code == "source_changed"


async def test_an_empty_folder_may_be_a_disk_that_is_not_mounted(shared: Path, tmp_path: Path) -> None:
    shared.rename(tmp_path / "elsewhere")
    shared.mkdir()
    with pytest.raises(TrainmasterError, match="is this folder mounted on this node") as caught:
        await fetch(wants(shared), tmp_path / "data")
    assert caught.value.code == "source_unavailable"


def test_a_changed_source_is_a_matter_of_the_data_and_not_of_the_node(tmp_path: Path) -> None:
    def changed(*_: object) -> None:
        raise TrainmasterError(
            "source_changed", "a.bin has 1 bytes, and 5 when its snapshot was made", source="a.bin"
        )

    launch = replace(LAUNCH, code=None, dataset=ArtifactReference(MANIFEST.id, "file:///data"))
    facts = NodeFacts(python="python3", inherited={}, gpu_uuids={}, interface="")
    with pytest.raises(PreparationError, match="has 1 bytes") as caught:
        prepare(WorkFolder(tmp_path / "att-1"), launch, facts, changed, Event())
    assert caught.value.end is EndReason.DATA_REVIEW
