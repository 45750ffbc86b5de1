"""The disk of one node: full, in the way, or broken. That node says so at once, and nobody else is held up."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

import pytest

from agent.transfer.disk.writer import Writer
from platform_core.distribution.content.manifest import Manifest
from platform_core.node.observed import TransferState
from tests.agent.transfer.rig import CHUNK, GatedStore, Node, begin_chain, completed, delivery


async def test_a_full_disk_fails_that_worker_alone_and_says_the_numbers(
    nodes: list[Node], store: GatedStore, manifest: Manifest
) -> None:
    store.open()
    nodes[1].holdings._reserve = 1 << 60
    begin_chain(nodes, manifest, store.url)
    ends = [await node.ended() for node in nodes]
    assert [end.state for end in ends] == [
        TransferState.COMPLETE, TransferState.FAILED, TransferState.COMPLETE, TransferState.COMPLETE,
    ]  # fmt: skip
    assert ends[1].error_code == "disk_full"
    assert "node-1 needs 2 MiB" in ends[1].error
    assert "has 0 B" in ends[1].error
    assert ends[2].source == "node-0"
    assert store.bytes_sent == manifest.total_bytes


async def test_a_disk_that_cannot_be_used_is_told_as_this_node_s_own(
    nodes: list[Node], store: GatedStore, manifest: Manifest
) -> None:
    store.open()
    nodes[1].home().parent.parent.mkdir(parents=True)
    nodes[1].home().parent.write_text("a file where a folder should be")
    begin_chain(nodes, manifest, store.url)
    ends = [await node.ended() for node in nodes]
    assert [completed(end) for end in ends] == [True, False, True, True]
    assert ends[1].error.startswith("The disk of this node: ")
    assert str(nodes[1].home()) in ends[1].error


async def test_a_disk_that_fills_up_is_told_though_nothing_more_comes(
    nodes: list[Node], store: GatedStore, manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(writer: Writer, directory: int, path: str, offset: int, parts: Sequence[memoryview]) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Writer, "write", full)
    store.allow(CHUNK)
    nodes[0].begin(delivery(manifest, store.url))
    end = await nodes[0].ended()
    assert (end.state, end.error_code, end.retries) == (TransferState.FAILED, "disk_full", 0)
    assert "is full" in end.error
    assert store.bytes_sent < manifest.total_bytes
