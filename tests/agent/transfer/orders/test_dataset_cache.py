"""A dataset comes to the nodes of a gang as about one copy, and later attempts on a node fetch nothing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.datasets import DatasetCache, held, is_dataset
from agent.manifests import Manifests
from agent.transfer.orders.deployments import Deployments
from platform_core.distribution.content.manifest import Manifest
from platform_core.distribution.planning import mesh
from platform_core.distribution.planning.forest import STORE, node_plans
from platform_core.distribution.planning.routes import Place
from platform_core.errors import TrainmasterError
from platform_core.node.observed import TransferState
from platform_core.node.wanted import ArtifactReference, DeploymentWanted, Launch, Peer
from tests.agent.launches import LAUNCH
from tests.agent.transfer.conftest import FILES
from tests.agent.transfer.rig import QUICK, GatedStore, Library

SIZE = sum(map(len, FILES.values()))


class Machine:
    def __init__(self, name: str, data: Path, manifest: Manifest) -> None:
        self.name, self.data, self.manifest = name, data, manifest

    async def start(self) -> None:
        self.cache = DatasetCache(self.data)
        self.deployments = Deployments(
            self.data, Manifests(self.data, Library(self.manifest), 2.0), lambda: None, trying=QUICK,
            in_use=self.cache.in_use,
        )  # fmt: skip
        self.cache.attach(self.deployments)
        self.port = await self.deployments.start("127.0.0.1")

    async def fetch(self, wanted: Launch, attempt: str) -> Path:
        """As the preparation of an attempt does it, in a thread."""
        into = self.data / "attempts" / attempt / "data"
        into.mkdir(parents=True)
        assert wanted.dataset is not None
        await asyncio.to_thread(self.cache.fetch_for(wanted, _never), wanted.dataset, into, lambda _: None)
        return into


def _never(*given: Any) -> None:
    raise AssertionError("it comes through the cache")


@pytest.fixture
async def gang(tmp_path: Path, manifest: Manifest) -> AsyncIterator[list[Machine]]:
    four = [Machine(f"node-{number}", tmp_path / f"node-{number}", manifest) for number in range(4)]
    for machine in four:
        await machine.start()
    yield four
    for machine in four:
        await machine.deployments.close()


def wanted(machines: list[Machine], manifest: Manifest, store: GatedStore) -> dict[str, Launch]:
    """By node, as the platform plans it for a gang."""
    peers = {machine.name: Peer(machine.name, f"127.0.0.1:{machine.port}") for machine in machines}
    artifact = ArtifactReference(manifest.id, store.url)
    launches = {}
    for plan in node_plans(mesh.plan([Place(name) for name in peers])):
        sources = {source for lane in plan.lanes for source in lane} - {STORE}
        order = DeploymentWanted(
            f"data-{manifest.id}", f"_datasets/{manifest.id}", "1", artifact,
            tuple(peers[source] for source in sorted(sources)), "token", plan.lanes, plan.slower,
        )  # fmt: skip
        launches[plan.node] = replace(LAUNCH, dataset=artifact, delivery=order)
    return launches


def read(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


async def test_a_gang_fetches_about_one_copy_and_the_next_attempt_nothing(
    gang: list[Machine], manifest: Manifest, store: GatedStore
) -> None:
    store.open()
    launches = wanted(gang, manifest, store)
    folders = await asyncio.gather(*(machine.fetch(launches[machine.name], "att-1") for machine in gang))
    assert all(read(folder) == FILES for folder in folders)
    assert store.bytes_sent <= 1.1 * SIZE
    before = store.bytes_sent
    again = await gang[0].fetch(wanted(gang[:1], manifest, store)["node-0"], "att-2")
    assert read(again) == FILES
    assert store.bytes_sent == before
    (delivery,) = gang[0].deployments.observed()
    assert is_dataset(delivery.deployment_id)


async def test_the_cache_outlives_the_agent(
    gang: list[Machine], manifest: Manifest, store: GatedStore
) -> None:
    store.open()
    alone = wanted(gang[:1], manifest, store)["node-0"]
    await gang[0].fetch(alone, "att-1")
    await gang[0].deployments.close()
    await gang[0].start()
    before = store.bytes_sent
    assert read(await gang[0].fetch(alone, "att-2")) == FILES
    assert store.bytes_sent == before


async def test_the_scheduler_is_told_what_is_here_until_it_is_evicted(
    gang: list[Machine], manifest: Manifest, store: GatedStore
) -> None:
    assert held(gang[0].data) == ()
    store.open()
    await gang[0].fetch(wanted(gang[:1], manifest, store)["node-0"], "att-1")
    assert held(gang[0].data) == (manifest.id,)
    await gang[0].deployments.evict(manifest.id, "the disk is full")
    assert held(gang[0].data) == ()


async def test_files_that_a_job_has_changed_are_fetched_again(
    gang: list[Machine], manifest: Manifest, store: GatedStore
) -> None:
    store.open()
    alone = wanted(gang[:1], manifest, store)["node-0"]
    first = await gang[0].fetch(alone, "att-1")
    changed = first / "weights.bin"
    assert (changed.stat().st_mode & 0o777) == 0o444
    changed.chmod(0o644)
    changed.write_bytes(b"another")
    assert read(await gang[0].fetch(alone, "att-2")) == FILES


async def test_what_an_attempt_uses_is_not_evicted(
    gang: list[Machine], manifest: Manifest, store: GatedStore
) -> None:
    store.open()
    folder = await gang[0].fetch(wanted(gang[:1], manifest, store)["node-0"], "att-1")
    home = gang[0].data / "models" / "_datasets" / manifest.id / "1"
    assert list(gang[0].cache.in_use()) == [home]
    for path in folder.rglob("*"):
        if path.is_file():
            os.unlink(path)
    assert list(gang[0].cache.in_use()) == []


async def test_a_dataset_that_nobody_has_is_a_reason_and_is_tried_again(
    gang: list[Machine], manifest: Manifest, store: GatedStore
) -> None:
    alone = wanted(gang[:1], manifest, store)["node-0"]
    store.broken = True
    store.open()
    with pytest.raises(TrainmasterError):
        await gang[0].fetch(alone, "att-1")
    store.broken = False
    assert read(await gang[0].fetch(alone, "att-2")) == FILES


def ahead(manifest: Manifest, store: GatedStore) -> DeploymentWanted:
    """What a spare node is told to have ready."""
    artifact = ArtifactReference(manifest.id, store.url)
    return DeploymentWanted(
        f"data-{manifest.id}", f"_datasets/{manifest.id}", "1", artifact, (), "token", preheat=True
    )


async def complete(machine: Machine, order: DeploymentWanted) -> None:
    while machine.deployments.progress(order.deployment_id).state is not TransferState.COMPLETE:
        await asyncio.sleep(0.01)


async def taken(machine: Machine, launch: Launch, artifact: ArtifactReference, name: str) -> Path:
    into = machine.data / "attempts" / "att-1" / name
    into.mkdir(parents=True)
    await asyncio.to_thread(machine.cache.fetch_for(launch, _never), artifact, into, lambda _: None)
    return into


async def test_a_spare_node_has_checkpoint_and_code_before_the_gang_comes(
    gang: list[Machine], manifest: Manifest, store: GatedStore
) -> None:
    store.open()
    order, machine = ahead(manifest, store), gang[0]
    machine.deployments.prefetch(order)
    await asyncio.wait_for(complete(machine, order), 20)
    before = store.bytes_sent
    machine.deployments.prefetch(order)
    resumes = replace(LAUNCH, dataset=None, delivery=None, resume=order.artifact, code=None)
    resume = await taken(machine, resumes, order.artifact, "resume")
    code = await taken(machine, replace(resumes, resume=None, code=order.artifact), order.artifact, "code")
    assert read(resume) == read(code) == FILES
    assert store.bytes_sent == before
    assert {path.stat().st_nlink for path in resume.rglob("*") if path.is_file()} == {2}
    assert {path.stat().st_nlink for path in code.rglob("*") if path.is_file()} == {1}, (
        "a job may write there"
    )


async def test_what_is_not_there_yet_is_fetched_as_usual(
    gang: list[Machine], manifest: Manifest, store: GatedStore
) -> None:
    order, machine = ahead(manifest, store), gang[0]
    machine.deployments.prefetch(order)
    asked: list[ArtifactReference] = []
    launch = replace(LAUNCH, dataset=None, delivery=None, resume=order.artifact)
    fetch = machine.cache.fetch_for(launch, lambda artifact, into, on_bytes: asked.append(artifact))
    await asyncio.to_thread(fetch, order.artifact, machine.data, lambda _: None)
    assert asked == [order.artifact]
    store.open()
