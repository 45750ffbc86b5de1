"""Ranks of a real gloo job that hang, and the agent that notices, takes their stacks and names them."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.attempts.watch import read_progress
from agent.work_folder import WorkFolder
from platform_core.jobs.hangs import Progress
from platform_core.jobs.stacks import diagnose
from platform_core.node.observed import AttemptObserved
from tests.agent.conftest import AgentProcess, wanted
from tests.support.gateway import Gateway
from trainmaster.store.copying import describe
from trainmaster_wire.agent.v1 import session_pb2
from trainmaster_wire.conversion import from_wire

SCRIPT = """
import os, pathlib, sys, time
import torch, torch.distributed as dist
import trainmaster

dist.init_process_group("gloo")
rank = dist.get_rank()
go_on = pathlib.Path(sys.argv[1])

def read_batch(step):
    while step == 40 and rank == 1 and not go_on.exists():
        time.sleep(0.05)
    return torch.ones(1)

for step in range(60):
    batch = read_batch(step)
    dist.all_reduce(batch)
    trainmaster.log(step, loss=1.0)
    time.sleep(0.2)
dist.destroy_process_group()
"""


@pytest.fixture
def code(gateway: Gateway, tmp_path: Path) -> session_pb2.ArtifactReference:
    source = tmp_path / "source"
    source.mkdir()
    (source / "train.py").write_text(SCRIPT)
    manifest, url, _ = describe(source.as_uri(), "code")
    return gateway.artifact(manifest, url)


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_a_rank_that_is_stuck_is_named_and_what_goes_on_again_hangs_no_longer(
    gateway: Gateway,
    agent: AgentProcess,
    code: session_pb2.ArtifactReference,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TRAINMASTER_AGENT_HANG_FLOOR_SECONDS", "2")
    go_on = tmp_path / "go-on"
    order = wanted("att-test-hang", "python", "train.py", str(go_on), strategy="ddp", slots=[0, 1], code=code)
    await agent.start()
    await gateway.want(order)
    observed = await gateway.until(lambda: _newest(gateway, lambda attempt: attempt.HasField("hang")), 90)
    hang = from_wire(AttemptObserved, observed)
    assert hang.hang is not None
    assert hang.stacks is not None
    assert 35 <= hang.hang.step <= 40
    assert hang.hang.silent_ms >= hang.hang.limit_ms >= 2_000
    verdict = diagnose(hang.stacks.ranks)
    assert (verdict.stuck, verdict.collective) == ((1,), "all_reduce")
    assert verdict.sentence.startswith("rank 1 is stuck in read_batch (train.py:")

    order.stacks_order = 3
    await gateway.want(order)
    answer = await gateway.until(lambda: _newest(gateway, lambda attempt: attempt.stacks.order == 3))
    assert [stack.rank for stack in answer.stacks.ranks] == [0, 1]
    assert answer.HasField("hang")
    for rank in (0, 1):
        await gateway.until(
            lambda rank=rank: gateway.log("att-test-hang", rank).count("stack dump of rank") >= 2 or None
        )
    assert "in read_batch" in gateway.log("att-test-hang", 1)
    assert "in all_reduce" in gateway.log("att-test-hang", 0)

    go_on.touch()
    await gateway.until(lambda: _newest(gateway, lambda attempt: not attempt.HasField("hang")), 60)
    assert (await gateway.until_drained("att-test-hang", 60)).exit_code == 0


def _newest(gateway: Gateway, holds: object) -> session_pb2.AttemptObserved | None:
    story = gateway.attempts["att-test-hang"]
    return story[-1] if story and holds(story[-1]) else None  # type: ignore[operator]


def test_whatever_a_job_writes_into_its_progress_files_is_read_or_skipped(tmp_path: Path) -> None:
    folder = WorkFolder(tmp_path / "attempts" / "att-test-a")
    folder.create()
    place = folder.path / "progress"
    (place / "0").write_text('{"step": 7, "at_ms": 5, "doing": "saving"}')
    (place / "1").write_text('{"step": 8, "at_ms": 6, "made": 2}')
    for name, text in {
        "2": "no json", "3": "[]", "4": '{"step": -1, "at_ms": 1}', "5": '{"step": 1e999, "at_ms": 1}',
        "6": '{"step": null}',
        "10": '{"step": 1, "at_ms": 1, "made": -1}', "7.new": '{"step": 1, "at_ms": 1}', "x": '{"step": 1, "at_ms": 1}',
    }.items():  # fmt: skip
        (place / name).write_text(text)
    (place / "8").symlink_to("/etc/hostname")
    (place / "9").mkdir()
    assert read_progress(folder) == [Progress(0, 7, 5, "saving"), Progress(1, 8, 6, made=2)]
