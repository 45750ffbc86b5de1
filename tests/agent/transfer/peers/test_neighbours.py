"""What a node knows of its neighbours, when it hears of them, and how long it waits for one."""

from __future__ import annotations

import asyncio

import grpc
import pytest

from agent.transfer.orders import pull
from agent.transfer.peers.neighbour import Neighbour, Patience, Security
from platform_core.distribution.content.manifest import Manifest
from platform_core.distribution.planning.forest import STORE
from platform_core.node.wanted import Peer
from tests.agent.transfer.rig import PIECE, TOKEN, GatedStore, Node, completed, delivery


async def test_who_is_named_second_is_connected_before_anybody_fails_and_tells_nothing_until_then(
    nodes: list[Node], store: GatedStore, manifest: Manifest
) -> None:
    store.open()
    nodes[0].begin(delivery(manifest, store.url))
    assert completed(await nodes[0].ended())
    told = asyncio.Event()
    landing = await nodes[1].holdings.open(manifest)
    second = Neighbour(
        Peer("node-0", f"127.0.0.1:{nodes[0].port}"), landing, 1, nodes[0].token, Patience(), Security(), told.set,
        lambda *_: None,
    )  # fmt: skip
    watching = asyncio.create_task(second.watch(after=3600.0, connect_after=0.0))
    while (state := second._channel.get_state()) is not grpc.ChannelConnectivity.READY:
        await second._channel.wait_for_state_change(state)
    assert second.holds == ((),)
    second.meet()
    await told.wait()
    assert second.holds == (((0, landing.count),),)
    watching.cancel()
    await second.close()


async def test_what_stood_still_is_given_time_with_another_parent(
    nodes: list[Node], store: GatedStore, manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pull, "STALLED_SECONDS", 0.2)
    store.allow(20 * PIECE)
    nodes[0].begin(delivery(manifest, store.url))
    nodes[1].begin(delivery(manifest, store.url, nodes[0]))
    await nodes[1].until(lambda progress: progress.bytes_done > 0)
    transfer = nodes[1].receiver._running["dep-1"]
    assert transfer._pull is not None
    while not transfer._pull._view().stalled:
        await asyncio.sleep(0.05)
    assert transfer.reroute((nodes[0].peer, nodes[2].peer), (("node-0", "node-2", STORE),), frozenset())
    assert transfer._pull._view().stalled == {0}, "it comes from where it came from"
    assert transfer.reroute((nodes[0].peer, nodes[2].peer), (("node-2", "node-0", STORE),), frozenset())
    assert not transfer._pull._view().stalled


async def test_that_a_neighbour_has_begun_or_leapt_is_told_at_once_and_progress_is_not(
    nodes: list[Node], manifest: Manifest
) -> None:
    told: list[int] = []
    landing = await nodes[1].holdings.open(manifest)
    neighbour = Neighbour(
        nodes[0].peer, landing, 1, TOKEN, Patience(), Security(), lambda: told.append(1), lambda *_: None
    )
    assert not neighbour.has_reported
    for runs, times in ((((0, 5),), 1), (((0, 6),), 1), (((0, 6), (9, 10)), 2), (((0, 6), (9, 12)), 2)):
        neighbour._learn((runs,))
        assert (len(told), neighbour.holds) == (times, (runs,))
    assert neighbour.has_reported
    await neighbour.close()


async def test_one_that_tells_of_other_lanes_is_not_followed(
    nodes: list[Node], store: GatedStore, manifest: Manifest
) -> None:
    store.open()
    nodes[0].begin(delivery(manifest, store.url))
    assert completed(await nodes[0].ended())
    landing = await nodes[1].holdings.open(manifest)
    why: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    neighbour = Neighbour(
        nodes[0].peer, landing, 65, nodes[0].token, Patience(), Security(), lambda: None,
        lambda _, trouble: why.set_result(str(trouble)),
    )  # fmt: skip
    watching = asyncio.create_task(neighbour.watch())
    assert await why == "node-0 reports 64 lanes, not 65"
    assert neighbour.gone
    watching.cancel()
    await neighbour.close()
