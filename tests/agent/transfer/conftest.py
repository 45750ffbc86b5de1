from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.agent.transfer.rig import GatedStore, Node, manifest_of, model_files

FILES = model_files()


@pytest.fixture
def store() -> Iterator[GatedStore]:
    with GatedStore(FILES).running() as running:
        yield running


@pytest.fixture(scope="session")
def manifest():  # type: ignore[no-untyped-def]
    return manifest_of(FILES)


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[list[Node]]:
    """Four nodes, started, in the order of the chain."""
    four = [Node(f"node-{n}", tmp_path / f"node-{n}") for n in range(4)]
    for node in four:
        await node.start()
    yield four
    for node in four:
        await node.stop()
