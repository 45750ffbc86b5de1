"""A node's disk as a cache of models: what is kept, what goes for room, and who is told."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from agent.manifests import Manifests
from agent.reconcile import DropDeployment, ReceiveDeployment, reconcile
from agent.transfer.disk.cache import Cache, Standing, Watermarks
from agent.transfer.orders.deployments import Deployments
from platform_core.distribution.content.manifest import Manifest
from platform_core.node.observed import DeploymentObserved, Observed, TransferState
from platform_core.node.wanted import DeploymentWanted, Wanted
from tests.agent.transfer.conftest import FILES
from tests.agent.transfer.orders.test_deployments import Agent, all_complete, order
from tests.agent.transfer.rig import (
    CHUNK,
    MODEL,
    GatedStore,
    Node,
    begin_chain,
    completed,
    content,
    delivery,
    manifest_of,
    model_files,
)

ANY_USE_IS_TOO_MUCH = Watermarks(0, 0)
SECOND = model_files(seed=2)


class FakeDisk(NamedTuple):
    used: int
    free: int


class Told:
    """A cache over the models of a node, on a disk of the size of ten models, with room for `free` more."""

    def __init__(self, node: Node, free: float, marks: Watermarks = Watermarks(86, 90)) -> None:
        self.evicted: list[tuple[str, str]] = []
        self.standings: Mapping[str, Standing] = {}
        self.in_use: list[Path] = []
        size = manifest_of(FILES).total_bytes

        def note(manifest_id: str, reason: str) -> None:
            self.evicted.append((manifest_id, reason))

        def disk(path: Path) -> FakeDisk:
            return FakeDisk(10 * size - int(free * size), int(free * size))

        self.cache = Cache(node.holdings, marks, lambda: self.standings, lambda: self.in_use, note, disk)

    @property
    def gone(self) -> list[str]:
        return [manifest_id for manifest_id, _ in self.evicted]


@pytest.fixture
async def node(nodes: list[Node], store: GatedStore, manifest: Manifest) -> Node:
    """It holds version 3, which was read last, and the older version 4 of other bytes."""
    store.open()
    nodes[0].begin(delivery(manifest, store.url))
    assert completed(await nodes[0].ended())
    store.files.update(SECOND)
    nodes[0].begin(delivery(manifest_of(SECOND), store.url, version="4"))
    assert completed(await nodes[0].ended())
    read_at(nodes[0].home("3"), 2_000)
    read_at(nodes[0].home("4"), 1_000)
    return nodes[0]


def read_at(home: Path, seconds: int) -> None:
    for path in home.rglob("*"):
        if path.is_file():
            os.utime(path, (seconds, seconds))


async def test_the_longest_unused_goes_and_leaves_nothing_behind(node: Node) -> None:
    told = Told(node, free=0.5)
    await told.cache.make_room()
    [(manifest_id, reason)] = told.evicted
    assert manifest_id == manifest_of(SECOND).id
    assert reason == "95 % of the disk were in use, more than 90 %; this had been unused the longest"
    assert not node.home("4").exists()
    assert not (node.data / "transfer" / manifest_id).exists()
    assert content(node.home("3")) == FILES


async def test_a_model_whose_folder_somebody_removed_does_not_keep_others_from_making_room(
    node: Node,
) -> None:
    shutil.rmtree(node.home("3"))
    told = Told(node, free=0.5)
    await told.cache.make_room()
    assert told.gone == [manifest_of(SECOND).id]


async def test_between_the_marks_nothing_goes(node: Node) -> None:
    told = Told(node, free=1)
    await told.cache.make_room()
    assert told.gone == []


async def test_what_is_pinned_active_or_under_way_stays(node: Node, manifest: Manifest) -> None:
    told = Told(node, free=0, marks=ANY_USE_IS_TOO_MUCH)
    link = node.data / "active"
    link.symlink_to(node.home("4"))
    told.in_use = [link]
    for standing in (Standing(pinned=True), Standing(under_way=True)):
        told.standings = {manifest.id: standing}
        await told.cache.make_room()
        assert told.gone == []
    told.standings = {}
    await told.cache.make_room()
    assert told.gone == [manifest.id]


async def test_what_was_active_a_moment_ago_was_of_use(node: Node, manifest: Manifest) -> None:
    told = Told(node, free=0.5, marks=Watermarks(86, 100))
    told.in_use = [node.home("4")]
    await told.cache.make_room()
    told.in_use = []
    worse = Told(node, free=0.5)
    await worse.cache.make_room()
    assert worse.gone == [manifest.id]


async def test_what_a_neighbour_was_sent_was_of_use(
    node: Node, nodes: list[Node], store: GatedStore, manifest: Manifest
) -> None:
    second = manifest_of(SECOND)
    nodes[1].begin(delivery(second, store.url, node, version="4"))
    assert completed(await nodes[1].ended())
    told = Told(node, free=0.5)
    await told.cache.make_room()
    assert told.gone == [manifest.id]


async def test_only_what_changed_between_two_versions_crosses_any_link(
    nodes: list[Node], store: GatedStore, manifest: Manifest
) -> None:
    """Also where a chunk has another place: a file came before it."""
    store.open()
    two = nodes[:2]
    begin_chain(two, manifest, store.url)
    assert all([completed(await one.ended()) for one in two])
    weights = bytearray(FILES["weights.bin"])
    weights[3 * CHUNK + 5] ^= 1
    newer = {"added.txt": b"of a few bytes", **FILES, "weights.bin": bytes(weights)}
    changed = CHUNK + len(b"of a few bytes")
    store.files.update(newer)
    before = store.bytes_sent
    second = manifest_of(newer)
    two[0].begin(delivery(second, store.url, version="4"))
    two[1].begin(delivery(second, store.url, two[0], version="4"))
    assert all([completed(await one.ended()) for one in two])
    assert store.bytes_sent - before == changed
    landing = two[0].holdings.landing(second.id)
    assert landing is not None
    assert landing.sent.total == changed
    assert content(two[1].home("4")) == newer


# -- what the session sees of it


class SmallAgent(Agent):
    """Whatever is on its disk is too much, unless it must stay."""

    async def start(self) -> None:
        self.deployments = Deployments(  # type: ignore[assignment]
            self.data, Manifests(self.data, self.library), self._changed, marks=ANY_USE_IS_TOO_MUCH
        )
        self.port = await self.deployments.start("127.0.0.1")


@pytest.fixture
async def small(tmp_path: Path):  # type: ignore[no-untyped-def]
    agent = SmallAgent(tmp_path / "small")
    await agent.start()
    yield agent
    await agent.deployments.close()


def states(observed: tuple[DeploymentObserved, ...]) -> list[str]:
    return [one.state.value for one in sorted(observed, key=lambda one: one.deployment_id)]


async def both(small: SmallAgent, store: GatedStore, first: DeploymentWanted) -> DeploymentWanted:
    """The first is on the disk, then the second comes."""
    store.open()
    small.deployments.receive(first)
    await small.until(all_complete)
    store.files.update(SECOND)
    small.library.add(manifest_of(SECOND))
    second = order(manifest_of(SECOND), store, deployment="dep-2", version="4")
    small.deployments.receive(second)
    await small.until(lambda seen: seen[1].state is TransferState.COMPLETE)
    return second


async def test_a_new_model_takes_the_room_of_an_old_one_and_the_session_hears_of_it(
    small: SmallAgent, store: GatedStore, manifest: Manifest
) -> None:
    first = order(manifest, store)
    await both(small, store, first)
    seen = small.deployments.observed()
    assert states(seen) == ["evicted", "complete"]
    assert "% of the disk were in use" in seen[0].error
    assert (seen[0].bytes_done, seen[0].acting_on) == (0, first)
    assert not (small.data / "models" / MODEL / "3").exists()


async def test_what_went_is_not_fetched_again_by_a_restart_until_somebody_asks(
    small: SmallAgent, store: GatedStore, manifest: Manifest
) -> None:
    first = order(manifest, store)
    second = await both(small, store, first)
    before = store.bytes_sent
    here = Observed((), small.deployments.observed())
    assert reconcile(Wanted(1, (), (first, second)), here) == (), "the server has yet to hear of it"
    assert reconcile(Wanted(2, (), (second,)), here) == (DropDeployment("dep-1"),)
    again = replace(first, retry=1)
    assert reconcile(Wanted(3, (), (again, second)), here) == (ReceiveDeployment(again),)
    await small.deployments.close()
    await small.start()
    assert states(small.deployments.observed())[0] == "evicted"
    small.deployments.drop("dep-1")
    assert [one.deployment_id for one in small.deployments.observed()] == ["dep-2"]
    assert store.bytes_sent == before


async def test_a_pin_keeps_it_and_moves_no_bytes(
    small: SmallAgent, store: GatedStore, manifest: Manifest
) -> None:
    store.open()
    first = order(manifest, store)
    pinned = replace(first, pinned=True)
    small.deployments.receive(first)
    await small.until(all_complete)
    [seen] = small.deployments.observed()
    assert reconcile(Wanted(1, (), (pinned,)), Observed((), (seen,))) == (ReceiveDeployment(pinned),)
    small.deployments.receive(pinned)
    [seen] = small.deployments.observed()
    assert (seen.state, seen.acting_on) == (TransferState.COMPLETE, pinned)
    assert reconcile(Wanted(1, (), (pinned,)), Observed((), (seen,))) == ()
    await small.deployments.close()
    await small.start()  # nobody has repeated the order yet: the record knows of the pin
    await both(small, store, pinned)
    assert states(small.deployments.observed()) == ["complete", "complete"]
