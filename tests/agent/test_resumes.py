"""From where the checkpoint of a restarted attempt comes: this node's own disk, its peers, the store."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from agent.resumes import FOLDER
from platform_core.checkpointing.parts import DESCRIPTION
from platform_core.distribution.content.layout import BY_DIGEST
from platform_core.distribution.content.manifest import Manifest
from tests.agent.conftest import AgentProcess, gone, wanted
from tests.agent.registered import registered
from tests.support.gateway import Gateway
from trainmaster_wire.agent.v1 import session_pb2

PATIENCE = 280.0  # seconds; a busy machine takes a while to import torch
SCRIPT = """
import sys, torch, trainmaster
state = {"weights": torch.arange(50_000.0), "seen": 1}
loaded = trainmaster.load_checkpoint()
if loaded is None:
    trainmaster.save_checkpoint(state, 7, blocking=True)
    sys.exit(3)
state, step = loaded
assert (step, float(state["weights"].sum())) == (7, float(torch.arange(50_000.0).sum()))
"""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store" / "checkpoint" / "job-test"


def attempt(name: str, store: Path, resume: object = None) -> session_pb2.AttemptWanted:
    launch = {"checkpoint_upload_url": store.as_uri()} | ({"resume": resume} if resume is not None else {})
    return wanted(name, "python", "-c", SCRIPT, **launch)


async def saved_by_an_attempt(gateway: Gateway, agent: AgentProcess, store: Path) -> tuple[Manifest, str]:
    """What it saved, once the attempt is gone from the node."""
    await agent.start()
    await gateway.want(attempt("att-test-1", store))
    ended = await gateway.until_drained("att-test-1", PATIENCE)
    assert ended.exit_code == 3, gateway.log("att-test-1", 0)
    [uploaded] = gateway.checkpoints("att-test-1")
    await gateway.want()
    await gone(agent.records("att-test-1"))
    return registered(store, uploaded), uploaded.source_url


def own_bytes(manifest: Manifest) -> int:
    """All that a node saved itself."""
    return sum(entry.size for entry in manifest.files if entry.path != DESCRIPTION)


def description_of(manifest: Manifest) -> str:
    return next(entry.sha256 for entry in manifest.files if entry.path == DESCRIPTION)


async def resumed(gateway: Gateway, store: Path, manifest: Manifest, url: str) -> session_pb2.AttemptObserved:
    await gateway.want(attempt("att-test-2", store, gateway.artifact(manifest, url)))
    return await gateway.until_drained("att-test-2", PATIENCE)


def told(agent: AgentProcess) -> tuple[int, int, int]:
    [numbers] = re.findall(r"(\d+) of (\d+) bytes were on this node, (\d+) are left", agent.log())
    own, total, left = map(int, numbers)
    return own, total, left


async def test_a_node_that_saved_it_reads_nothing_from_the_store(
    gateway: Gateway, agent: AgentProcess, store: Path
) -> None:
    manifest, url = await saved_by_an_attempt(gateway, agent, store)
    for path in (store / BY_DIGEST).iterdir():
        if path.name != description_of(manifest):
            path.unlink()
    ended = await resumed(gateway, store, manifest, url)
    assert (ended.exit_code, ended.reason) == (0, ""), gateway.log("att-test-2", 0)
    assert told(agent) == (own_bytes(manifest), manifest.total_bytes, 0)


async def test_copies_go_when_their_job_has_succeeded(
    gateway: Gateway, agent: AgentProcess, store: Path
) -> None:
    manifest, url = await saved_by_an_attempt(gateway, agent, store)
    assert list((agent.data / FOLDER / "job-test").iterdir())
    await resumed(gateway, store, manifest, url)
    await gateway.want()
    await gone(agent.data / FOLDER / "job-test")


async def test_a_damaged_copy_is_not_used(gateway: Gateway, agent: AgentProcess, store: Path) -> None:
    manifest, url = await saved_by_an_attempt(gateway, agent, store)
    [shard] = (agent.data / FOLDER).rglob("rank-00000-000.safetensors")
    whole = bytearray(shard.read_bytes())
    whole[-1] ^= 1
    shard.write_bytes(whole)
    ended = await resumed(gateway, store, manifest, url)
    assert (ended.exit_code, ended.reason) == (0, "")
    assert told(agent)[2] == len(whole)  # it came when the rank asked


async def test_a_node_without_a_copy_brings_the_shards_that_a_rank_asks_for(
    gateway: Gateway, agent: AgentProcess, store: Path, tmp_path: Path
) -> None:
    manifest, url = await saved_by_an_attempt(gateway, agent, store)
    shutil.rmtree(agent.data / FOLDER)
    ended = await resumed(gateway, store, manifest, url)
    assert (ended.exit_code, ended.reason) == (0, "")
    own, total, left = told(agent)
    assert (own, total) == (0, manifest.total_bytes)
    assert 0 < left < total


async def test_a_shard_that_is_damaged_in_the_store_is_told_to_the_rank(
    gateway: Gateway, agent: AgentProcess, store: Path
) -> None:
    manifest, url = await saved_by_an_attempt(gateway, agent, store)
    shutil.rmtree(agent.data / FOLDER)
    [entry] = [entry for entry in manifest.files if entry.path.startswith("rank-00000-")]
    [stored] = [path for path in store.rglob("*") if path.is_file() and path.stat().st_size == entry.size]
    stored.chmod(0o644)
    stored.write_bytes(bytes(entry.size))
    ended = await resumed(gateway, store, manifest, url)
    assert (ended.exit_code, ended.resume_damaged) == (1, True)
    assert "was read twice and does not have the SHA-256" in ended.reason
    assert "CheckpointCorrupt" in gateway.log("att-test-2", 0)
