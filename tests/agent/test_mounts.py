"""A dataset that is read where it lies: an attempt sees the files of its snapshot and no others; nothing is copied."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.manifests import Manifests
from agent.mounts import mounting
from platform_core.errors import TrainmasterError
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
