"""A real agent that cannot restore a checkpoint: is the checkpoint to blame, or is it something else?"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from platform_core.distribution.content.manifest import Manifest
from tests.agent.conftest import AgentProcess, wanted
from tests.support.gateway import Gateway
from trainmaster.store.copying import describe
from trainmaster_wire.agent.v1 import session_pb2

DATA_REVIEW, NETWORK = session_pb2.AttemptObserved.DATA_REVIEW, session_pb2.AttemptObserved.NETWORK
LAUNCHER, SCRIPT = session_pb2.AttemptObserved.LAUNCHER, session_pb2.AttemptObserved.SCRIPT_ERROR


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """Where a platform keeps a checkpoint: below its kind, its job and its attempt."""
    folder = tmp_path / "store" / "checkpoint" / "job-1" / "att-1" / "checkpoint-0-step-00000005"
    folder.mkdir(parents=True)
    (folder / "state.pt").write_bytes(b"weights" * 100)
    return folder


async def resumed(
    gateway: Gateway, agent: AgentProcess, manifest: Manifest, url: str, *command: str
) -> session_pb2.AttemptObserved:
    await agent.start()
    resume = gateway.artifact(manifest, url)
    await gateway.want(wanted("att-2", *(command or ("true",)), resume=resume))
    return await gateway.until_drained("att-2")


async def test_other_bytes_than_were_saved(gateway: Gateway, agent: AgentProcess, saved: Path) -> None:
    manifest, _, _ = describe(saved.as_uri(), "checkpoint")
    (saved / "state.pt").write_bytes(b"Weights" + b"weights" * 99)
    ended = await resumed(gateway, agent, manifest, saved.as_uri())
    assert (ended.exit_code, ended.end, ended.resume_damaged) == (
        125,
        DATA_REVIEW,
        True,
    )
    assert "state.pt (chunk 0) was read twice and does not have the SHA-256" in ended.reason


@pytest.mark.parametrize("left", [b"", b"weights"], ids=["gone", "cut short"])
async def test_bytes_that_are_missing(
    gateway: Gateway, agent: AgentProcess, saved: Path, left: bytes
) -> None:
    manifest, _, _ = describe(saved.as_uri(), "checkpoint")
    if left:
        (saved / "state.pt").write_bytes(left)
    else:
        shutil.rmtree(saved.parents[1])
    ended = await resumed(gateway, agent, manifest, saved.as_uri())
    assert ended.resume_damaged
    assert "state.pt cannot be read" in ended.reason


async def test_a_store_whose_disk_is_not_mounted_says_nothing_of_the_checkpoint(
    gateway: Gateway, agent: AgentProcess, saved: Path
) -> None:
    manifest, _, _ = describe(saved.as_uri(), "checkpoint")
    shutil.rmtree(saved.parents[2])
    ended = await resumed(gateway, agent, manifest, saved.as_uri())
    assert (ended.exit_code, ended.end, ended.resume_damaged) == (
        125,
        LAUNCHER,
        False,
    )


async def test_a_store_that_does_not_answer_says_nothing_of_it_either(
    gateway: Gateway, agent: AgentProcess, saved: Path
) -> None:
    manifest, _, _ = describe(saved.as_uri(), "checkpoint")
    ended = await resumed(gateway, agent, manifest, "http://127.0.0.1:9/checkpoint")
    assert (ended.exit_code, ended.end, ended.resume_damaged) == (
        125,
        NETWORK,
        False,
    )


@pytest.mark.parametrize(
    ("error", "damaged"),
    [
        (
            "trainmaster.checkpoints.folder.CheckpointCorrupt: The checkpoint is refused: state.pt is damaged.",
            True,
        ),
        ("ValueError: out of ideas", False),
    ],
)
async def test_the_script_may_find_what_was_damaged_before_it_was_uploaded(
    gateway: Gateway, agent: AgentProcess, saved: Path, error: str, damaged: bool
) -> None:
    manifest, _, _ = describe(saved.as_uri(), "checkpoint")
    word = json.dumps({"exit_code": 1, "error": error})
    script = f"echo '{word}' > $TRAINMASTER_DIR/ranks/rank-0.exit; exit 1"
    ended = await resumed(gateway, agent, manifest, saved.as_uri(), "sh", "-c", script)
    assert (ended.exit_code, ended.end, ended.resume_damaged) == (
        1,
        SCRIPT,
        damaged,
    )
