"""500 GB in pieces of 4 MiB have a manifest of 8 MB. It goes down a line of nodes from one to the next, as bytes do."""

from __future__ import annotations

import gc
import hashlib
import itertools
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import agent.manifests
import agent.transfer.orders.deployments
from platform_core.distribution.content.manifest import Chunk, FileEntry, Manifest, assemble, to_json
from platform_core.node.observed import TransferState
from tests.agent.transfer.orders.test_deployments import Agent, order
from tests.agent.transfer.rig import GatedStore, Library

PIECES, NODES = 120_000, 10
PIECE, OF_A_CHUNK = 16, 256  # small, so that ten disks have room for it


@pytest.fixture(scope="module")
def large() -> Manifest:
    digests = [hashlib.sha256(number.to_bytes(4)).hexdigest() for number in range(PIECES)]
    chunks = []
    for index, first in enumerate(range(0, PIECES, OF_A_CHUNK)):
        pieces = tuple(digests[first : first + OF_A_CHUNK])
        chunks.append(Chunk(index, 0, first * PIECE, len(pieces) * PIECE, digests[first], pieces))
    return assemble("model", (FileEntry("weights.bin", PIECES * PIECE, "0" * 64),), tuple(chunks), PIECE)


@pytest.fixture
async def line(tmp_path: Path, large: Manifest) -> AsyncIterator[list[Agent]]:
    """Each would rather wait for the one before it than ask the platform."""
    ten = [Agent(tmp_path / f"agent-{n}") for n in range(NODES)]
    platform = Library(large)
    for each in ten:
        each.patience, each.library = 600, platform
        await each.start()
    yield ten
    for each in ten:
        await each.deployments.close()


async def test_the_platform_gives_it_once_and_everybody_reads_it_once(
    line: list[Agent], store: GatedStore, large: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(to_json(large)) > 8_000_000
    from_whom: Counter[str] = Counter()
    read: Counter[int] = Counter()
    ask, parse = agent.transfer.orders.deployments.ask_neighbour, agent.manifests.from_json

    async def asked(security: Any, token: str, peer: Any, manifest_id: str) -> bytes:
        text = await ask(security, token, peer, manifest_id)
        from_whom[peer.address] += 1
        return text

    def parsed(text: bytes) -> Manifest:
        read[len(text)] += 1
        return parse(text)

    monkeypatch.setattr(agent.transfer.orders.deployments, "ask_neighbour", asked)
    monkeypatch.setattr(agent.manifests, "from_json", parsed)
    for before, after in reversed(list(itertools.pairwise(line))):  # the last is told first
        after.deployments.receive(order(large, store, before))
    line[0].deployments.receive(order(large, store))
    for each in line:
        await each.until(lambda seen: bool(seen) and seen[0].state is not TransferState.IDLE, seconds=300)
        assert each.deployments.observed()[0].state is TransferState.RECEIVING
    assert line[0].library.asked == [large.id]
    assert from_whom == {f"127.0.0.1:{each.port}": 1 for each in line[:-1]}
    assert sum(read.values()) == NODES
    kept = [each for each in gc.get_objects() if type(each) is Manifest and each.id == large.id]
    assert len(kept) == NODES + 1, "each node has one, and this test"
