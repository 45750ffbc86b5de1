"""Two nodes of one slot each, trained by real torchrun over gloo."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from agent.launchers import processes
from tests.agent.conftest import AgentProcess, free_port, stop, wanted
from tests.support.gateway import Gateway, running_gateway
from trainmaster.store.copying import describe
from trainmaster_wire.agent.v1 import session_pb2

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

# Where an exception leaves the process group as it is, one run in forty aborts at its exit (134): PyTorch's threads.
SCRIPT = """
import os, signal, sys, time
import torch, torch.distributed as dist
import trainmaster

dist.init_process_group("gloo")
try:
    rank = dist.get_rank()
    total = torch.ones(1) * (rank + 1)
    dist.all_reduce(total)
    print(f"rank {rank} of {dist.get_world_size()} sums to {int(total.item())}", flush=True)
    if sys.argv[1] == "die" and rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if sys.argv[1] == "raise" and rank == 0:
        raise ValueError("the loss is not a number")
    if sys.argv[1] in ("wait", "die", "raise"):
        print("waiting", flush=True)
        while not trainmaster.should_stop():
            time.sleep(0.05)
        print("leaving in peace", flush=True)
finally:
    dist.destroy_process_group()
"""


class Pair:
    """Two nodes, each with a gateway of its own, and code that both fetch."""

    def __init__(
        self, nodes: list[tuple[Gateway, AgentProcess]], code: session_pb2.ArtifactReference
    ) -> None:
        self.nodes, self.code = nodes, code
        self.gateways = [gateway for gateway, _ in nodes]

    async def run(self, attempt_id: str, *command: str) -> None:
        port = free_port()
        for rank, (gateway, _) in enumerate(self.nodes):
            launch = {"nodes": 2, "node_rank": rank, "master_port": port, "code": self.code}
            await gateway.want(wanted(attempt_id, *command, strategy="ddp", grace_seconds=30, **launch))

    async def ends(self, attempt_id: str) -> list[session_pb2.AttemptObserved]:
        return list(await asyncio.gather(*(each.until_drained(attempt_id, 90) for each in self.gateways)))

    async def until_logged(self, attempt_id: str, text: str) -> None:
        for rank, gateway in enumerate(self.gateways):
            await gateway.until(partial(self._logged, gateway, attempt_id, rank, text), 90)

    def _logged(self, gateway: Gateway, attempt_id: str, rank: int, text: str) -> bool:
        return text in gateway.log(attempt_id, rank)


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    source = tmp_path / "source"
    source.mkdir()
    (source / "train.py").write_text(SCRIPT)
    manifest, url, _ = describe(source.as_uri(), "code")
    async with running_gateway() as first, running_gateway() as second:
        code, _ = (gateway.artifact(manifest, url) for gateway in (first, second))
        nodes = [
            (gateway, AgentProcess(gateway, tmp_path / f"agent-{i}"))
            for i, gateway in enumerate((first, second))
        ]
        try:
            for _, agent in nodes:
                await agent.start()
            yield Pair(nodes, code)
        finally:
            for _, agent in nodes:
                await agent.kill()


async def test_ranks_of_two_nodes_find_each_other(pair: Pair) -> None:
    await pair.run("att-test-pair", "python", "train.py", "once")
    ends = await pair.ends("att-test-pair")
    assert [(end.exit_code, end.reason) for end in ends] == [(0, ""), (0, "")]
    for rank, gateway in enumerate(pair.gateways):
        assert f"rank {rank} of 2 sums to 3" in gateway.log("att-test-pair", rank)
        assert "limits:" in gateway.log("att-test-pair", 1_000_000 + rank)


async def test_a_rank_killed_by_sigkill_is_named_in_the_reason(pair: Pair) -> None:
    await pair.run("att-test-die", "python3", "train.py", "die")
    end = await pair.gateways[1].until_drained("att-test-die", 90)
    assert (end.exit_code, end.end) == (137, session_pb2.AttemptObserved.KILLED)
    assert end.reason == "Rank 1 was killed by SIGKILL."
    await pair.gateways[0].want(stop("att-test-die", 5))
    await pair.gateways[0].until_drained("att-test-die", 90)
    assert processes.marked("att-test-die") == []


async def test_an_exception_is_quoted_in_the_reason(pair: Pair) -> None:
    await pair.run("att-test-raise", "python", "train.py", "raise")
    end = await pair.gateways[0].until_drained("att-test-raise", 90)
    assert (end.exit_code, end.reason) == (
        1,
        "Rank 0 ended with exit code 1: ValueError: the loss is not a number.",
    )
    await pair.gateways[1].want(stop("att-test-raise", 5))
    await pair.gateways[1].until_drained("att-test-raise", 90)


async def test_a_script_that_leaves_in_peace_counts_as_clean_although_torchrun_does_not(pair: Pair) -> None:
    await pair.run("att-test-wait", "python", "train.py", "wait")
    await pair.until_logged("att-test-wait", "waiting")
    for gateway in pair.gateways:
        await gateway.want(stop("att-test-wait", 30))
    ends = await pair.ends("att-test-wait")
    assert [(end.exit_code, end.reason) for end in ends] == [(0, "It was asked to stop, and did.")] * 2
    for rank, gateway in enumerate(pair.gateways):
        assert "leaving in peace" in gateway.log("att-test-wait", rank)
