"""An order to write files back is carried out once, by a node that holds them."""

from __future__ import annotations

import asyncio
from pathlib import Path

from agent.mending import Mender
from platform_core.node.wanted import ArtifactReference, MendWanted
from tests.agent.transfer.rig import manifest_of

FILES = {"a.bin": b"first", "folder/b.bin": b"second"}
MANIFEST = manifest_of(FILES)


def home_of(place: Path) -> Path:
    for path, data in FILES.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_bytes(data)
    return place


async def until_written(path: Path) -> None:
    async with asyncio.timeout(10):
        while not path.exists():
            await asyncio.sleep(0.01)


async def test_files_go_back_to_where_they_lay_once_for_each_order(tmp_path: Path) -> None:
    home, store = home_of(tmp_path / "home"), tmp_path / "store"
    mender = Mender(lambda manifest_id: (MANIFEST, home) if manifest_id == MANIFEST.id else None)
    artifact = ArtifactReference(MANIFEST.id, store.as_uri())
    first = MendWanted(artifact, ("folder/b.bin",), 1)
    mender.want([first])
    await until_written(store / "folder/b.bin")
    assert not (store / "a.bin").exists()
    (store / "folder/b.bin").unlink()
    mender.want([first])  # told again: it was done
    mender.want([MendWanted(artifact, ("a.bin",), 2)])
    await until_written(store / "a.bin")
    assert not (store / "folder/b.bin").exists()
    mender.want(
        [MendWanted(ArtifactReference("man-other", store.as_uri()), ("a.bin",), 1)]
    )  # not here: no harm
    mender.want([])
