"""A model goes down a chain of nodes: real servers, real store, one process."""

from __future__ import annotations

import asyncio
import os
import threading
from dataclasses import replace
from typing import Any

import pytest

from agent.transfer.disk.writer import Writer
from agent.transfer.orders.pull import Trying
from agent.transfer.peers.neighbour import Patience
from platform_core.distribution.content.manifest import Manifest, assemble
from platform_core.distribution.planning.forest import STORE
from platform_core.node.observed import TransferState
from tests.agent.transfer.conftest import FILES
from tests.agent.transfer.rig import (
    CHUNK,
    PIECE,
    QUICK,
    GatedStore,
    Node,
    begin_chain,
    completed,
    content,
    delivery,
    manifest_of,
)
from tests.agent.transfer.rig import digests as sha256_of

HALF = 8 * CHUNK


async def test_four_nodes_hold_equal_bytes_and_one_copy_left_the_store(
    nodes: list[Node], store: GatedStore, manifest: Manifest
) -> None:
    store.open()
    begin_chain(nodes, manifest, store.url)
    ends = [await node.ended() for node in nodes]
    assert all(completed(end) for end in ends), ends
    assert [end.source for end in ends] == [STORE, "node-0", "node-1", "node-2"]
    assert all(end.bytes_done == end.bytes_total == manifest.total_bytes for end in ends)
    expected = {entry.path: entry.sha256 for entry in manifest.files}
    assert [sha256_of(node.home()) for node in nodes] == [expected] * 4
    assert store.bytes_sent == manifest.total_bytes
    assert all((node.data / "transfer" / manifest.id / "files").exists() is False for node in nodes)


async def test_a_node_forwards_what_it_has_verified_while_it_still_receives(
    nodes: list[Node], store: GatedStore, manifest: Manifest
) -> None:
    store.allow(HALF)
    begin_chain(nodes, manifest, store.url)
    await nodes[3].until(lambda progress: progress.bytes_done >= 7 * CHUNK)
    assert nodes[0].reports[-1].bytes_done < manifest.total_bytes
    store.open()
    assert completed(await nodes[3].ended())


async def test_a_disk_that_stands_still_holds_up_no_follower(
    nodes: list[Node], store: GatedStore, manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on, write = threading.Event(), Writer.write

    def stalls(writer: Writer, directory: int, *rest: Any) -> None:
        if os.readlink(f"/proc/self/fd/{directory}").startswith(str(nodes[0].data)):
            assert goes_on.wait(20)
        write(writer, directory, *rest)

    monkeypatch.setattr(Writer, "write", stalls)
    store.open()
    begin_chain(nodes, manifest, store.url)
    await nodes[3].until(lambda progress: progress.bytes_done >= 3 * PIECE)
    landing = nodes[0].holdings.landing(manifest.id)
    assert landing is not None
    assert landing.bytes_done == 0
    goes_on.set()
    assert all([completed(await node.ended()) for node in nodes])


async def test_a_dead_predecessor_is_skipped_and_no_second_copy_leaves_the_store(
    nodes: list[Node], store: GatedStore, manifest: Manifest
) -> None:
    store.allow(HALF)
    begin_chain(nodes, manifest, store.url)
    await nodes[3].until(lambda progress: progress.bytes_done >= 7 * CHUNK)
    await nodes[1].stop()
    store.open()
    ends = [await nodes[number].ended() for number in (0, 2, 3)]
    assert all(completed(end) for end in ends), ends
    assert [end.source for end in ends] == [STORE, "node-0", "node-2"]
    assert store.bytes_sent == manifest.total_bytes
    assert content(nodes[3].home()) == FILES

    # Back again, it fetches only what it lacks.
    await nodes[1].start()
    nodes[1].begin(delivery(manifest, store.url, nodes[0]))
    await nodes[1].ended()
    assert content(nodes[1].home()) == FILES
    assert nodes[1].holdings.landing(manifest.id).received.total < manifest.total_bytes - 6 * CHUNK  # type: ignore[union-attr]


async def test_when_the_puller_dies_the_next_node_turns_to_the_store(
    nodes: list[Node], store: GatedStore, manifest: Manifest
) -> None:
    store.allow(HALF)
    begin_chain(nodes, manifest, store.url)
    await nodes[3].until(lambda progress: progress.bytes_done >= 7 * CHUNK)
    await nodes[0].stop()
    store.open()
    ends = [await node.ended() for node in nodes[1:]]
    assert all(completed(end) for end in ends), ends
    assert [end.source for end in ends] == [STORE, "node-1", "node-2"]


async def test_a_damaged_piece_from_the_store_is_neither_kept_nor_forwarded(
    nodes: list[Node], store: GatedStore, manifest: Manifest
) -> None:
    store.damage_next.add("weights.bin")
    store.open()
    begin_chain(nodes, manifest, store.url)
    ends = [await node.ended() for node in nodes]
    assert all(completed(end) for end in ends), ends
    assert ends[0].distrusted == (STORE,)
    assert all(end.distrusted == () for end in ends[1:])
    assert [content(node.home()) for node in nodes] == [FILES] * 4


async def test_a_peer_whose_disk_flips_a_bit_is_named_and_bypassed(
    nodes: list[Node], store: GatedStore, manifest: Manifest
) -> None:
    store.open()
    nodes[0].begin(delivery(manifest, store.url))
    await nodes[0].ended()
    weights = nodes[0].home() / "weights.bin"
    with weights.open("r+b") as file:
        file.seek(5 * CHUNK + PIECE + 7)
        file.write(bytes([FILES["weights.bin"][5 * CHUNK + PIECE + 7] ^ 4]))
    before = store.bytes_sent

    nodes[1].begin(delivery(manifest, store.url, nodes[0]))
    end = await nodes[1].ended()
    assert completed(end)
    assert end.distrusted == ("node-0",)
    assert end.source == STORE
    assert content(nodes[1].home()) == FILES
    # What was good came from the peer, the rest from the store.
    assert 0 < store.bytes_sent - before <= manifest.total_bytes - 5 * CHUNK


async def test_a_restarted_node_goes_on_without_fetching_anything_twice(
    nodes: list[Node], store: GatedStore, manifest: Manifest
) -> None:
    node = nodes[0]
    store.allow(HALF)
    node.begin(delivery(manifest, store.url))
    await node.until(lambda progress: progress.bytes_done >= 7 * CHUNK)
    await node.stop()
    kept = node.reports[-1].bytes_done
    store.broken = True
    store.open()  # ranges that were on their way at the kill lead nowhere
    await node.start()
    store.broken = False
    node.begin(delivery(manifest, store.url))
    assert completed(await node.ended())
    assert node.holdings.landing(manifest.id).received.total == manifest.total_bytes - kept  # type: ignore[union-attr]
    assert content(node.home()) == FILES


async def test_a_restarted_node_that_finds_all_it_knew_gone_gets_the_rest_from_the_store(
    nodes: list[Node], store: GatedStore, manifest: Manifest
) -> None:
    store.allow(HALF)
    begin_chain(nodes[:3], manifest, store.url)
    await nodes[2].until(lambda progress: progress.bytes_done >= 7 * CHUNK)
    for node in nodes[:3]:
        await node.stop()
    store.broken = True
    store.open()
    await nodes[2].start()
    store.broken = False
    nodes[2].begin(delivery(manifest, store.url, nodes[1], nodes[0]))
    assert completed(await nodes[2].ended())
    assert content(nodes[2].home()) == FILES


async def test_bytes_that_changed_on_disk_during_a_restart_are_found_and_fetched_again(
    nodes: list[Node], store: GatedStore, manifest: Manifest
) -> None:
    node = nodes[0]
    store.allow(HALF)
    node.begin(delivery(manifest, store.url))
    await node.until(lambda progress: progress.bytes_done >= 7 * CHUNK)
    await node.stop()
    with (node.data / "transfer" / manifest.id / "files" / "weights.bin").open("r+b") as file:
        file.seek(2 * CHUNK)
        file.write(b"damaged")
    store.open()
    await node.start()
    node.begin(delivery(manifest, store.url))
    end = await node.ended()
    assert completed(end)
    assert end.retries >= 1
    assert content(node.home()) == FILES


async def test_a_completed_model_is_served_after_a_restart(
    nodes: list[Node], store: GatedStore, manifest: Manifest
) -> None:
    store.open()
    nodes[0].begin(delivery(manifest, store.url))
    await nodes[0].ended()
    await nodes[0].stop()
    await nodes[0].start()
    store.broken = True
    nodes[1].begin(delivery(manifest, store.url, nodes[0]))
    assert completed(await nodes[1].ended())
    nodes[0].begin(delivery(manifest, store.url))
    assert completed(await nodes[0].ended())


@pytest.mark.parametrize("when", ["before", "in the middle"])
async def test_nothing_is_left_behind_after_a_cancel(
    when: str, nodes: list[Node], store: GatedStore, manifest: Manifest
) -> None:
    node = nodes[0]
    if when == "in the middle":
        store.allow(HALF)
    node.begin(delivery(manifest, store.url))
    await store.until_held()
    await node.cancel()
    await node.receiver.discard(manifest.id, "vision/bytelm", "3")
    assert content(node.data) == {}


async def test_a_finished_model_can_be_removed(
    nodes: list[Node], store: GatedStore, manifest: Manifest
) -> None:
    store.open()
    node = nodes[0]
    node.begin(delivery(manifest, store.url))
    await node.ended()
    node.begin(delivery(manifest, store.url, version="4"))
    await node.ended()
    assert store.bytes_sent == manifest.total_bytes
    assert (node.home("3") / "weights.bin").samefile(node.home("4") / "weights.bin")
    await node.receiver.discard(manifest.id, "vision/bytelm", "3")
    assert not node.home("3").exists()
    nodes[1].begin(delivery(manifest, store.url, node))
    assert completed(await nodes[1].ended())
    assert store.bytes_sent == manifest.total_bytes
    await node.receiver.discard(manifest.id, "vision/bytelm", "4")
    assert content(node.data) == {}


async def test_unchanged_chunks_of_an_earlier_version_are_not_sent_again(
    nodes: list[Node], store: GatedStore, manifest: Manifest
) -> None:

    store.open()
    nodes[0].begin(delivery(manifest, store.url))
    await nodes[0].ended()
    weights = bytearray(FILES["weights.bin"])
    weights[3 * CHUNK + 5] ^= 1
    store.files["weights.bin"] = bytes(weights)
    before = store.bytes_sent
    nodes[0].begin(delivery(manifest_of(store.files), store.url, version="4"))
    assert completed(await nodes[0].ended())
    assert store.bytes_sent - before == CHUNK
    assert content(nodes[0].home("4")) == store.files
    assert content(nodes[0].home("3")) == FILES


async def test_pieces_that_do_not_add_up_to_the_file_are_told_as_a_failed_verification(
    nodes: list[Node], store: GatedStore, manifest: Manifest
) -> None:
    store.open()
    first, *others = manifest.files
    another = (replace(first, sha256="0" * 64), *others)
    told = assemble("model", another, manifest.chunks, manifest.piece_size)
    nodes[0].begin(delivery(told, store.url))
    end = await nodes[0].ended()
    assert (end.state, end.error_code) == (TransferState.FAILED, "verification_failed")
    assert first.path in end.error
    assert not nodes[0].home().exists()


async def test_a_dead_source_is_named_after_several_tries(
    nodes: list[Node], store: GatedStore, manifest: Manifest
) -> None:
    store.open()
    store.broken = True
    await nodes[1].stop()
    nodes[0].begin(delivery(manifest, store.url, nodes[1]))
    end = await nodes[0].ended()
    assert (end.state, end.error_code, end.retries) == (TransferState.FAILED, "source_unavailable", 5)
    assert "node-1 cannot be reached (unavailable" in end.error
    assert "the server answered 503" in end.error
    store.broken = False
    nodes[0].begin(delivery(manifest, store.url, nodes[1]))
    assert completed(await nodes[0].ended())


async def test_a_peer_that_does_not_accept_the_token_gives_nothing_away(
    nodes: list[Node], store: GatedStore, manifest: Manifest
) -> None:
    store.open()
    nodes[0].token = "of another deployment"
    await nodes[1].stop()
    nodes[1].trying = Trying(QUICK.pauses, Patience(silence=2.0, strangeness=0.1))
    await nodes[1].start()
    begin_chain(nodes[:2], manifest, store.url)
    ends = [await node.ended() for node in nodes[:2]]
    assert all(completed(end) for end in ends)
    assert ends[1].source == STORE
    assert ends[1].retries == 1


async def test_a_cap_holds_back_what_a_node_passes_on(
    nodes: list[Node], store: GatedStore, manifest: Manifest
) -> None:
    store.open()
    nodes[0].begin(delivery(manifest, store.url))
    await nodes[0].ended()
    await nodes[0].stop()
    nodes[0].cap_out = manifest.total_bytes  # per second: so one copy takes about that long
    await nodes[0].start()
    nodes[0].begin(delivery(manifest, store.url))
    await nodes[0].ended()
    clock = asyncio.get_running_loop().time
    began = clock()
    nodes[1].begin(delivery(manifest, store.url, nodes[0]))
    assert completed(await nodes[1].ended())
    assert clock() - began > 0.7, "a lower bound only: slower is always possible"


async def test_two_that_wait_for_each_other_fail_when_the_store_cannot_be_read(
    nodes: list[Node], store: GatedStore, manifest: Manifest
) -> None:
    store.open()
    store.broken = True
    for node, other, lanes in (
        (nodes[0], nodes[1], ((STORE, "node-1"), ("node-1", STORE))),
        (nodes[1], nodes[0], (("node-0", STORE), (STORE, "node-0"))),
    ):
        node.begin(replace(delivery(manifest, store.url, other), lanes=lanes))
    ends = await asyncio.gather(*(node.ended() for node in nodes[:2]))
    assert [(end.state, end.error_code) for end in ends] == [(TransferState.FAILED, "source_unavailable")] * 2
