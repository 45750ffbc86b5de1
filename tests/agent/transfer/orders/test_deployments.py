"""Orders of the control plane become models on disk, through restarts and changes of mind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agent.manifests import Manifests
from agent.transfer.orders.deployments import Deployments
from platform_core.distribution.content.manifest import Manifest, to_json
from platform_core.distribution.planning.forest import STORE
from platform_core.node.observed import DeploymentObserved, TransferState
from platform_core.node.wanted import ArtifactReference, DeploymentWanted, Peer
from tests.agent.transfer.conftest import FILES
from tests.agent.transfer.rig import CHUNK, MODEL, QUICK, GatedStore, Library, content, manifest_of


class Refusing(Deployments):
    """Tells when it has turned a peer away."""

    refused: asyncio.Event

    def _authorised(self, token: str) -> bool:
        accepted = super()._authorised(token)
        if not accepted:
            self.refused.set()
        return accepted


class Agent:
    """The part of an agent that its session talks to."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.library = Library(manifest_of(FILES))
        self.patience = 2.0  # with neighbours that are asked for a manifest
        self._news = asyncio.Event()

    async def start(self) -> None:
        self.deployments = Refusing(
            self.data, Manifests(self.data, self.library, self.patience), self._changed, trying=QUICK
        )
        self.deployments.refused = asyncio.Event()
        self.port = await self.deployments.start("127.0.0.1")

    async def until(
        self, condition: Callable[[tuple[DeploymentObserved, ...]], bool], seconds: float = 30
    ) -> None:
        async with asyncio.timeout(seconds):
            while not condition(self.deployments.observed()):
                news = self._news
                if not condition(self.deployments.observed()):
                    await news.wait()

    def _changed(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


@pytest.fixture
async def agents(tmp_path: Path) -> AsyncIterator[list[Agent]]:
    two = [Agent(tmp_path / f"agent-{n}") for n in range(2)]
    for agent in two:
        await agent.start()
    yield two
    for agent in two:
        await agent.deployments.close()


def order(
    manifest: Manifest, store: GatedStore, *peers: Agent, deployment: str = "dep-1", version: str = "3"
) -> DeploymentWanted:
    return DeploymentWanted(
        deployment_id=deployment,
        model=MODEL,
        version=version,
        artifact=ArtifactReference(manifest.id, store.url),
        peers=tuple(Peer(f"node-{peer.port}", f"127.0.0.1:{peer.port}") for peer in peers),
        transfer_token="token of the deployment",
    )


def all_complete(observed: tuple[DeploymentObserved, ...]) -> bool:
    return bool(observed) and all(each.state is TransferState.COMPLETE for each in observed)


async def test_both_agents_hold_the_model(agents: list[Agent], store: GatedStore, manifest: Manifest) -> None:
    store.open()
    agents[1].deployments.receive(order(manifest, store, agents[0]))
    agents[0].deployments.receive(order(manifest, store))
    for agent in agents:
        await agent.until(all_complete)
        assert content(agent.data / "models" / MODEL / "3") == FILES
    seen = agents[1].deployments.observed()[0]
    assert seen.acting_on == order(manifest, store, agents[0])
    assert (seen.bytes_done, seen.source) == (manifest.total_bytes, f"node-{agents[0].port}")
    assert store.bytes_sent == manifest.total_bytes


async def test_a_complete_node_tells_what_it_passes_on_until_it_is_nothing(
    agents: list[Agent], store: GatedStore, manifest: Manifest
) -> None:
    store.open()
    agents[0].deployments.receive(order(manifest, store))
    await agents[0].until(all_complete)
    assert agents[0].deployments.observed()[0].rate_out == 0
    agents[1].deployments.receive(order(manifest, store, agents[0]))
    await agents[0].until(lambda seen: all_complete(seen) and seen[0].rate_out > 0)
    await agents[1].until(all_complete)
    await agents[0].until(lambda seen: all_complete(seen) and seen[0].rate_out == 0)


async def test_an_order_that_overtakes_its_predecessor_s_waits_for_it(
    agents: list[Agent], store: GatedStore, manifest: Manifest
) -> None:
    store.open()
    agents[1].deployments.receive(order(manifest, store, agents[0]))
    async with asyncio.timeout(20):
        await agents[0].deployments.refused.wait()
    agents[0].deployments.receive(order(manifest, store))
    for agent in agents:
        await agent.until(all_complete)
    assert agents[1].deployments.observed()[0].source == f"node-{agents[0].port}"
    assert store.bytes_sent == manifest.total_bytes


async def test_a_restarted_agent_still_has_what_it_had(
    agents: list[Agent], store: GatedStore, manifest: Manifest
) -> None:
    store.open()
    agents[0].deployments.receive(order(manifest, store))
    await agents[0].until(all_complete)
    await agents[0].deployments.close()
    await agents[0].start()
    seen = agents[0].deployments.observed()[0]
    assert (seen.state, seen.acting_on) == (TransferState.COMPLETE, None)
    store.broken = True
    agents[0].deployments.receive(order(manifest, store))
    await agents[0].until(lambda observed: all_complete(observed) and observed[0].acting_on is not None)
    assert agents[0].library.asked == [manifest.id]  # the first time


async def test_other_predecessors_in_the_middle_lose_nothing(
    agents: list[Agent], store: GatedStore, manifest: Manifest
) -> None:
    store.allow(8 * CHUNK)
    agents[0].deployments.receive(order(manifest, store))
    await agents[0].until(lambda observed: observed[0].bytes_done > 6 * CHUNK)
    agents[0].deployments.receive(order(manifest, store, agents[1]))
    store.open()
    agents[1].deployments.receive(order(manifest, store))
    for agent in agents:
        await agent.until(all_complete)
    assert content(agents[0].data / "models" / MODEL / "3") == FILES
    assert agents[0].library.asked == [manifest.id]


@pytest.mark.parametrize("finished", [True, False])
async def test_what_is_dropped_leaves_nothing_behind(
    finished: bool, agents: list[Agent], store: GatedStore, manifest: Manifest
) -> None:
    agent = agents[0]
    if finished:
        store.open()
    agent.deployments.receive(order(manifest, store))
    if finished:
        await agent.until(all_complete)
    else:
        await store.until_held()
    agent.deployments.drop("dep-1")
    assert agent.deployments.observed() == ()
    await agent.deployments.close()
    assert content(agent.data) == {}
    await agent.start()


async def test_a_newer_deployment_of_the_same_version_takes_the_files_over(
    agents: list[Agent], store: GatedStore, manifest: Manifest
) -> None:
    store.open()
    agent = agents[0]
    agent.deployments.receive(order(manifest, store))
    await agent.until(all_complete)
    # In this order within one round of reconciling: ends come before beginnings.
    agent.deployments.drop("dep-1")
    agent.deployments.receive(order(manifest, store, deployment="dep-2"))
    await agent.until(all_complete)
    assert store.bytes_sent == manifest.total_bytes
    assert [path.stem for path in (agent.data / "transfer" / "deployments").iterdir()] == ["dep-2"]


async def test_a_manifest_that_is_not_the_one_ordered_is_refused(
    agents: list[Agent], store: GatedStore, manifest: Manifest
) -> None:
    wanted = order(manifest, store)
    agents[0].library.texts[manifest.id] = to_json(manifest_of({"another": b"model"})).encode()
    agents[0].deployments.receive(wanted)
    await agents[0].until(lambda observed: observed[0].state is TransferState.FAILED)
    assert agents[0].deployments.observed()[0].error_code == "manifest_invalid"


async def test_a_manifest_that_the_platform_does_not_give_fails_the_delivery(
    agents: list[Agent], store: GatedStore, manifest: Manifest
) -> None:
    agents[0].library.texts.clear()
    agents[0].deployments.receive(order(manifest, store))
    await agents[0].until(lambda observed: observed[0].state is TransferState.FAILED)
    seen = agents[0].deployments.observed()[0]
    assert (seen.error_code, seen.error) == ("source_unavailable", f"Nobody knows {manifest.id}")


async def test_two_deployments_of_one_model_ask_for_its_manifest_once(
    agents: list[Agent], store: GatedStore, manifest: Manifest
) -> None:
    store.open()
    agent = agents[0]
    agent.deployments.receive(order(manifest, store))
    agent.deployments.receive(order(manifest, store, deployment="dep-2", version="4"))
    await agent.until(all_complete)
    assert content(agent.data / "models" / MODEL / "4") == FILES
    assert agent.library.asked == [manifest.id]


# -- manifests from neighbours


@pytest.fixture
async def patient(tmp_path: Path) -> AsyncIterator[Agent]:
    """Would rather wait for a neighbour than ask the platform."""
    agent = Agent(tmp_path / "patient")
    agent.patience = 60
    await agent.start()
    yield agent
    await agent.deployments.close()


async def test_a_neighbour_gives_the_manifest_as_soon_as_it_has_it(
    agents: list[Agent], patient: Agent, store: GatedStore, manifest: Manifest
) -> None:
    store.open()
    patient.deployments.receive(order(manifest, store, agents[0]))
    async with asyncio.timeout(20):
        await agents[0].deployments.refused.wait()
    agents[0].deployments.receive(order(manifest, store))
    await patient.until(all_complete)
    assert (agents[0].library.asked, patient.library.asked) == ([manifest.id], [])


async def test_the_platform_is_asked_where_a_neighbour_gives_another_manifest(
    agents: list[Agent], patient: Agent, store: GatedStore, manifest: Manifest
) -> None:
    store.open()
    liar = agents[0]
    liar.deployments.receive(order(manifest, store))
    await liar.until(all_complete)
    kept = liar.data / "transfer" / manifest.id / "manifest.json"
    kept.write_text(to_json(manifest_of({"another": b"model"})))
    patient.deployments.receive(order(manifest, store, liar))
    await patient.until(all_complete)
    assert patient.library.asked == [manifest.id]
    assert content(patient.data / "models" / MODEL / "3") == FILES


async def test_the_platform_is_asked_where_no_neighbour_answers(
    agents: list[Agent], patient: Agent, store: GatedStore, manifest: Manifest
) -> None:
    store.open()
    await agents[0].deployments.close()
    patient.deployments.receive(order(manifest, store, agents[0]))
    await patient.until(all_complete)
    assert patient.library.asked == [manifest.id]


async def test_a_neighbour_without_such_an_order_is_not_waited_for_long(
    agents: list[Agent], patient: Agent, store: GatedStore, manifest: Manifest
) -> None:
    store.open()
    patient.deployments.receive(order(manifest, store, agents[0]))
    await patient.until(lambda observed: observed[0].state is TransferState.RECEIVING)
    assert patient.library.asked == [manifest.id]


async def test_a_neighbour_whose_own_delivery_failed_is_not_waited_for(
    agents: list[Agent], patient: Agent, store: GatedStore, manifest: Manifest
) -> None:
    agents[0].library.texts.clear()
    patient.deployments.receive(order(manifest, store, agents[0]))
    agents[0].deployments.receive(order(manifest, store))
    await patient.until(lambda observed: observed[0].state is TransferState.RECEIVING)
    assert patient.library.asked == [manifest.id]


@pytest.mark.parametrize("fed", [0, 1])
async def test_who_is_fed_by_the_store_in_any_lane_asks_the_platform_at_once(
    agents: list[Agent], patient: Agent, store: GatedStore, manifest: Manifest, fed: int
) -> None:
    store.open()
    wanted = order(manifest, store, agents[0])
    agents[0].deployments.receive(order(manifest, store))
    name = wanted.peers[0].node_id
    lanes = [(name, STORE), (name, STORE)]
    lanes[fed] = (STORE, name)
    patient.deployments.receive(replace(wanted, lanes=tuple(lanes)))
    await patient.until(all_complete)
    assert patient.library.asked == [manifest.id]


async def test_a_model_name_that_leaves_the_folder_is_refused(
    agents: list[Agent], store: GatedStore, manifest: Manifest
) -> None:
    store.open()
    agents[0].deployments.receive(order(manifest, store, version="../../../../tmp/x"))
    await agents[0].until(lambda observed: observed[0].state is TransferState.FAILED)
    assert agents[0].deployments.observed()[0].error_code == "manifest_invalid"


async def test_a_taken_port_is_an_error_at_the_start(agents: list[Agent], tmp_path: Path) -> None:
    other = Deployments(tmp_path / "other", Manifests(tmp_path / "other", Library()), lambda: None)
    with pytest.raises(OSError, match=f"Port {agents[0].port} for moving models cannot be opened"):
        await other.start("127.0.0.1", agents[0].port)
    await other.close()
