"""Notices at random moments of a training loop: each leaves a run that goes on from the very step that it had made.

The agent, its launcher with standby processes, torchrun, the ranks and the store are real. TRAINMASTER_TEST_NOTICES=100
gives so many; `python -m benchmarks.survival --measure notices` gives them on the whole platform.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.rig.survival_notices import MOMENTS, SCRIPT, Moment, read
from tests.agent.conftest import AgentProcess, stop, wanted
from tests.agent.registered import registered
from tests.support.gateway import Gateway

SEED = 23
COUNT = int(os.environ.get("TRAINMASTER_TEST_NOTICES", len(MOMENTS)))
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300 + 60 * COUNT)]
NOTICE_S = 60  # as clouds give them; a busy machine takes a while to save
PATIENCE_S = 280.0


class Loop:
    """Attempts of one job of two ranks, each from the newest checkpoint that is whole in the store."""

    def __init__(self, gateway: Gateway, folder: Path) -> None:
        self._gateway, self._store = gateway, folder / "store" / "checkpoint" / "job-test"
        self._told = folder / "moments"
        self._script = str(shutil.copy(SCRIPT, folder / "train.py"))
        self._attempt = 0

    async def run(self) -> None:
        self._attempt += 1
        checkpoint = self._newest()
        launch: dict[str, Any] = {"strategy": "ddp", "slots": [0, 1], "attempt": self._attempt}
        if checkpoint is not None:
            manifest = registered(self._store, checkpoint)
            launch["resume"] = self._gateway.artifact(manifest, checkpoint.source_url)
        environment = {"SURVIVAL_MOMENTS": str(self._told), "SURVIVAL_ELEMENTS": "2000000"}
        launch |= {"environment": environment, "checkpoint_upload_url": self._store.as_uri()}
        await self._gateway.want(wanted(self._name, "python", self._script, **launch))

    async def notice(self) -> tuple[int, int]:
        """Ends the attempt as the platform does when its machine is taken away: the last step made, and the step of
        the newest whole checkpoint, 0 for none."""
        order = stop(self._name, NOTICE_S)
        order.stop_deadline_ms = int(time.time() * 1000) + NOTICE_S * 1000
        order.stop_reason = "spot notice"
        await self._gateway.want(order)
        ended = await self._gateway.until_drained(self._name, PATIENCE_S)
        assert not ended.reason.endswith("its grace."), ended.reason
        await self._gateway.want()
        await self._gateway.until(lambda: not self._gateway.observed.attempts)
        checkpoint = self._newest()
        made = max((moment.step for moment in read(self._told) if moment.name == "made"), default=0)
        return made, 0 if checkpoint is None else checkpoint.step

    def moments(self) -> list[Moment]:
        return read(self._told)

    async def until(self, look: Callable[[], Any]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not look():
                await asyncio.sleep(0.02)

    @property
    def _name(self) -> str:
        return f"att-test-{self._attempt}"

    def _newest(self) -> Any:
        return max(self._gateway.checkpoints(""), key=lambda each: each.step, default=None)


async def test_each_notice_leaves_a_run_that_goes_on_from_the_step_that_it_had_made(
    gateway: Gateway, agent: AgentProcess, tmp_path: Path
) -> None:
    chance = random.Random(SEED)
    planned = [MOMENTS[number % len(MOMENTS)] for number in range(COUNT)]
    chance.shuffle(planned)
    loop = Loop(gateway, tmp_path)
    await agent.start("--standby-free-mib", "1")
    await gateway.until(lambda: gateway.heartbeats)
    reached = 0
    for number, moment in enumerate(planned):
        seen = len(loop.moments())
        await loop.run()
        if moment == "start-up":
            await asyncio.sleep(chance.uniform(0.0, 3.0))
        else:
            await loop.until(lambda: any(each.name == moment for each in loop.moments()[seen:]))  # noqa: B023
            await asyncio.sleep(chance.uniform(0.0, 0.8))
        made, saved = await loop.notice()
        assert saved == made, f"{moment}: {loop.moments()[seen:]}"
        assert {each.step for each in loop.moments()[seen:] if each.name == "resumed"} <= {reached}
        reached = saved
        print(f"notice {number + 1} at {moment}: resumable from step {saved}")
    seen = len(loop.moments())
    await loop.run()
    await loop.until(lambda: any(each.name == "made" for each in loop.moments()[seen:]))
    assert next(each.step for each in loop.moments()[seen:] if each.name == "resumed") == reached > 0
    assert (await loop.notice())[1] > reached


async def test_an_agent_that_takes_a_running_attempt_over_has_a_standby_for_the_next(
    gateway: Gateway, agent: AgentProcess, tmp_path: Path
) -> None:
    """As after an upgrade: the standby of the agent before has ended with it."""
    loop, told = Loop(gateway, tmp_path), "a standby waits for the next attempt after att-test-1"
    await agent.start("--standby-free-mib", "1")
    await gateway.until(lambda: gateway.heartbeats)
    await loop.run()
    await loop.until(lambda: told in agent.log())
    await agent.kill()
    await agent.start("--standby-free-mib", "1")
    await loop.until(lambda: agent.log().count(told) == 2)
    made, saved = await loop.notice()
    assert saved == made
