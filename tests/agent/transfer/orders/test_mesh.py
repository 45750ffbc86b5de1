"""A model spreads over a mesh: each lane its own tree, everybody forwards, the store is left once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent.transfer.disk import landing as disk
from agent.transfer.orders import pull
from agent.transfer.orders.pull import LOOK_AGAIN_SECONDS, STALLED_SECONDS, Trying
from agent.transfer.orders.receiver import Delivery
from agent.transfer.peers.neighbour import Patience
from agent.transfer.store import sources
from platform_core.distribution.content.manifest import Manifest
from platform_core.distribution.planning import mesh
from platform_core.distribution.planning.forest import STORE, Forest, node_plans
from platform_core.distribution.planning.repair import mend
from platform_core.distribution.planning.routes import Place
from platform_core.node.observed import TransferState
from tests.agent.transfer.conftest import FILES
from tests.agent.transfer.rig import CHUNK, MODEL, PIECE, TOKEN, VERSION, GatedStore, Node, completed, content

SIX = tuple(f"node-{number}" for number in range(6))


@pytest.fixture
async def six(tmp_path: Path) -> AsyncIterator[dict[str, Node]]:
    nodes = {name: Node(name, tmp_path / name) for name in SIX}
    for node in nodes.values():
        await node.start()
    yield nodes
    for node in nodes.values():
        await node.stop()


def grown() -> Forest:
    return mesh.plan([Place(name, f"rack-{index // 3}") for index, name in enumerate(SIX)])


def orders(nodes: dict[str, Node], forest: Forest, manifest: Manifest, store: str) -> dict[str, Delivery]:
    peers = tuple(node.peer for node in nodes.values())
    return {
        plan.node: Delivery(
            "dep-1",
            manifest,
            store,
            tuple(p for p in peers if p.node_id != plan.node),
            MODEL,
            VERSION,
            TOKEN,
            plan.lanes,
        )
        for plan in node_plans(forest)
    }


async def test_everybody_gets_everything_and_one_copy_leaves_the_store(
    six: dict[str, Node], store: GatedStore, manifest: Manifest
) -> None:
    store.open()
    for name, order in orders(six, grown(), manifest, store.url).items():
        six[name].begin(order)
    ends = [await node.ended() for node in six.values()]
    assert all(completed(end) for end in ends), ends
    assert [content(node.home()) for node in six.values()] == [FILES] * 6
    assert store.bytes_sent == manifest.total_bytes
    pulled = [end.store_bytes for end in ends if end.store_bytes]
    assert len(pulled) > 1, "no single node is the seed"
    assert sum(pulled) == manifest.total_bytes


async def test_behind_slow_links_one_copy_leaves_the_store_and_nobody_sends_much_more_than_one(
    six: dict[str, Node], store: GatedStore, manifest: Manifest
) -> None:
    """Links as token buckets, for machines without network namespaces."""
    rate = manifest.total_bytes // 2  # bytes per second, in and out: the least possible is two seconds
    for node in six.values():
        await node.stop()
        node.cap_in = node.cap_out = rate
        await node.start()
    store.open()
    clock = asyncio.get_running_loop().time
    began = clock()
    for name, order in orders(six, grown(), manifest, store.url).items():
        six[name].begin(order)
    ends = [await node.ended() for node in six.values()]
    assert all(completed(end) for end in ends), ends
    assert clock() - began > 1.6, "the caps hold, but for the first tenth of a second and the last pieces"
    assert store.bytes_sent <= 1.02 * manifest.total_bytes
    landings = [node.holdings.landing(manifest.id) for node in six.values()]
    sent = [landing.sent.total / manifest.total_bytes for landing in landings if landing is not None]
    assert max(sent) <= 1.5
    assert sum(sent) == pytest.approx(5, abs=0.2), "each of the others from a neighbour, once"


async def test_in_the_end_one_that_hardly_sends_is_left_for_others(
    six: dict[str, Node], store: GatedStore, manifest: Manifest
) -> None:
    """Not the root of a lane, of which others have nothing."""
    forest = grown()
    inner = [seat.node for seat in forest.seats if STORE not in seat.parents]
    weak = six[max(inner, key=lambda name: sum(seat.parents.count(name) for seat in forest.seats))]
    weak.cap_out = PIECE  # a piece a second
    for node in six.values():
        await node.stop()
        node.trying = Trying(patience=Patience(silence=50.0, strangeness=50.0))
        await node.start()
    store.open()
    for name, order in orders(six, forest, manifest, store.url).items():
        six[name].begin(order)
    ends = [await node.ended() for node in six.values()]
    assert all(completed(end) for end in ends), ends
    landing = weak.holdings.landing(manifest.id)
    assert landing is not None
    assert landing.sent.total < manifest.total_bytes / 4, "of the model that it has a place for"
    assert store.bytes_sent == manifest.total_bytes


async def test_a_root_whose_disk_is_late_is_not_behind_those_that_have_it_from_it(
    six: dict[str, Node], store: GatedStore, manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would skip what others have, and ask the store twice for what is on its way."""
    late, quick = SIX[:2]
    lanes = {late: ((STORE,), (quick, STORE)), quick: ((late, STORE), (STORE,))}
    everything = orders(six, grown(), manifest, store.url)
    for name, ways in lanes.items():
        everything[name] = replace(everything[name], lanes=ways)
    store.allow(ALLOWED * PIECE)
    for name, seconds in ((quick, 0.02), (late, 5.0)):
        monkeypatch.setattr(disk, "BATCH_SECONDS", seconds)
        six[name].begin(everything[name])
        await six[name].until(lambda progress: progress.state == TransferState.RECEIVING)
    async with asyncio.timeout(30):
        while len(held(six[quick], manifest)) < ALLOWED - 1:
            await asyncio.sleep(0.02)
    await asyncio.sleep(2 * LOOK_AGAIN_SECONDS)  # it looks at what the other one has
    store.open()
    assert [completed(await six[name].ended()) for name in (late, quick)] == [True, True]
    assert store.bytes_sent == manifest.total_bytes


ALLOWED = 29  # pieces, before the store holds back


async def lost_with(dead: str, nodes: dict[str, Node], manifest: Manifest) -> int:
    """The bytes that the store must send again if this node dies when somebody holds each piece that is allowed: those
    that nobody else holds, and those on their way. A node asks for one piece more as long as no more than
    `ENOUGH_BYTES` are to come, in each lane that it pulls."""
    async with asyncio.timeout(30):
        while not set(range(ALLOWED)) <= set().union(*(held(node, manifest) for node in nodes.values())):
            await asyncio.sleep(0.02)
    others = set().union(*(held(node, manifest) for name, node in nodes.items() if name != dead))
    pulled = next(seat.parents.count(STORE) for seat in grown().seats if seat.node == dead)
    return len(held(nodes[dead], manifest) - others) * PIECE + pulled * (sources.ENOUGH_BYTES + PIECE)


def held(node: Node, manifest: Manifest) -> set[int]:
    landing = node.holdings.landing(manifest.id)
    return set() if landing is None else {number for number in range(landing.count) if landing.has(number)}


@pytest.fixture
async def six_patient(six: dict[str, Node], monkeypatch: pytest.MonkeyPatch) -> dict[str, Node]:
    """They leave a node whose sockets are closed, and none that a loaded machine holds up. No range is asked for anew
    while the gate of the store is closed: it would leave the store twice."""
    monkeypatch.setattr(sources, "ENOUGH_BYTES", 8 * PIECE)  # in proportion to this small model
    for node in six.values():
        await node.stop()
        node.trying = Trying(patience=Patience(silence=50.0, strangeness=50.0), store_silence=50.0)
        await node.start()
    return six


@pytest.mark.parametrize("number", range(6))
async def test_any_node_may_die_in_the_middle(
    number: int,
    six_patient: dict[str, Node],
    store: GatedStore,
    manifest: Manifest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However slow the machine is: no lane counts as stalled, which would ask the store for what others wait for."""
    monkeypatch.setattr(pull, "STALLED_SECONDS", 50.0)
    six, dead = six_patient, SIX[number]
    store.allow(ALLOWED * PIECE)
    for name, order in orders(six, grown(), manifest, store.url).items():
        six[name].begin(order)
    again = await lost_with(dead, six, manifest)
    await six[dead].stop()
    store.open()
    ends = {name: await node.ended() for name, node in six.items() if name != dead}
    assert all(completed(end) for end in ends.values()), ends
    assert all(content(six[name].home()) == FILES for name in ends)
    assert store.bytes_sent <= manifest.total_bytes + again

    # Back again, it is given a place as a leaf and fetches what it lacks.
    before = store.bytes_sent
    await six[dead].start()
    places = [Place(dead, f"rack-{number // 3}")]
    forest = mend(mend(grown(), [dead]), (), places)
    six[dead].begin(orders(six, forest, manifest, store.url)[dead])
    assert completed(await six[dead].ended())
    assert content(six[dead].home()) == FILES
    assert store.bytes_sent == before


async def test_after_a_stall_only_the_heir_of_a_dead_root_asks_the_store(
    six_patient: dict[str, Node], store: GatedStore, manifest: Manifest
) -> None:
    six, root = six_patient, SIX[0]
    store.allow(ALLOWED * PIECE)
    for name, order in orders(six, grown(), manifest, store.url).items():
        six[name].begin(order)
    again = await lost_with(root, six, manifest)
    await asyncio.sleep(1.2 * STALLED_SECONDS)
    await six[root].stop()
    await asyncio.sleep(0.2)  # all see it before the heir has anything new
    store.open()
    ends = [await node.ended() for name, node in six.items() if name != root]
    assert all(completed(end) for end in ends), ends
    assert store.bytes_sent <= manifest.total_bytes + again


async def test_other_parents_in_the_middle_leave_what_is_under_way_alone(
    six: dict[str, Node], store: GatedStore, manifest: Manifest
) -> None:
    store.allow(29 * PIECE)
    forest = grown()
    for name, order in orders(six, forest, manifest, store.url).items():
        six[name].begin(order)
    await six[SIX[3]].until(lambda progress: progress.bytes_done > 4 * CHUNK)
    mended = orders(six, mend(forest, [SIX[2]]), manifest, store.url)
    for name, order in mended.items():
        assert six[name].receiver.reroute("dep-1", order.peers, order.lanes, order.slower)
    store.open()
    ends = [await six[name].ended() for name in mended]
    assert all(completed(end) for end in ends), ends
    assert [end.retries for end in ends] == [0] * 5


async def test_a_neighbour_whose_disk_flips_a_bit_is_named_and_its_piece_comes_from_elsewhere(
    six: dict[str, Node], store: GatedStore, manifest: Manifest
) -> None:
    store.open()
    everything = orders(six, grown(), manifest, store.url)
    first, second, third = SIX[:3]
    for name in (first, second):
        alone = Delivery("dep-1", manifest, store.url, (), MODEL, VERSION, TOKEN)
        six[name].begin(alone)
        await six[name].ended()
    with (six[first].home() / "weights.bin").open("r+b") as file:
        file.seek(5 * CHUNK + PIECE + 7)
        file.write(bytes([FILES["weights.bin"][5 * CHUNK + PIECE + 7] ^ 4]))
    before = store.bytes_sent
    order = everything[third]
    lanes = ((first, second, STORE), (second, first, STORE))
    six[third].begin(Delivery("dep-1", manifest, store.url, order.peers, MODEL, VERSION, TOKEN, lanes))
    end = await six[third].ended()
    assert completed(end)
    assert content(six[third].home()) == FILES
    assert end.distrusted in ((first,), ())  # the piece may have come from the other one
    assert store.bytes_sent == before
