"""The coordinator of a benchmark: the platform's own decisions about the mesh, fed by what the rig's gateway hears."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from benchmarks.rig.gateway import AT_WORK, Gateway
from platform_core.distribution.deployments.presence import silent
from platform_core.distribution.planning.forest import USUAL, Forest, Tree
from platform_core.distribution.planning.repair import mend
from platform_core.distribution.planning.routes import Place
from platform_core.distribution.slow_nodes.pace import Changes, Watch, look
from platform_core.distribution.slow_nodes.windows import Seen
from trainmaster_wire.agent.v1.session_pb2 import DeploymentObserved, DeploymentWanted


@dataclass(frozen=True, slots=True)
class Clocks:
    """Shorter than the platform's, as the runs are: that mends every 2 s, after 3 s of silence, judges every 4 s."""

    round_s: float = 1.0
    silent_ms: int = 2_000
    measure_ms: int = 2_000
    jitter_ms: int = 250


class Coordinator:
    """`forest` is the durable plan; all else is heard. So a fresh one with the same plan goes on as the first."""

    def __init__(
        self, gateway: Gateway, forest: Forest, orders: Callable[[Forest], Mapping[str, DeploymentWanted]],
        clocks: Clocks | None = None,
    ) -> None:  # fmt: skip
        self.forest = forest
        self.mended = 0
        self._gateway, self._orders, self._clocks = gateway, orders, clocks or Clocks()
        self._places = {seat.node: Place(seat.node, seat.rack[1], seat.rack[0]) for seat in forest.seats}
        self._watch, self._measured_ms, self._began_ms = Watch(), 0, _now_ms()

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._clocks.round_s)
            await self._round(_now_ms())

    async def _round(self, now: int) -> None:
        told = self._gateway.observed
        busy = [node for node in self._places if node not in told or told[node].state in AT_WORK]
        # Whom a fresh coordinator has not heard yet, it waits for as if he had spoken when it began.
        heard = {node: self._gateway.heard_ms.get(node, self._began_ms) for node in busy}
        failed = {node for node, seen in told.items() if seen.state == DeploymentObserved.FAILED}
        gone = silent(heard, now, self._clocks.silent_ms) | failed
        anew, self._gateway.anew = self._gateway.anew & set(busy), set()
        seated = {seat.node for seat in self.forest.seats}
        back = [self._places[node] for node in sorted(set(busy) - gone - (seated - anew))]
        paces = {seat.node: seat.pace for seat in self.forest.seats if seat.pace != USUAL}
        changed = Changes()
        if now - self._measured_ms >= self._clocks.measure_ms:
            self._measured_ms = now
            seen = {node: Seen(heard[node], tuple(told[node].held)) for node in set(busy) & set(told) - gone}
            self._watch, changed = look(self._watch, seen, self.forest.seats, self._clocks.jitter_ms)
        if gone & seated or back or changed:
            await self._tell(mend(self.forest, gone | anew, back, paces | dict(changed.paces), changed.sends))

    async def _tell(self, after: Forest) -> None:
        before, self.forest = Tree(self.forest), after
        tree, orders = Tree(after), self._orders(after)
        told = [n for n in tree.seats if n not in before.seats or before.plan_for(n) != tree.plan_for(n)]
        self.mended += 1
        await self._gateway.want({node: orders[node] for node in told})


def _now_ms() -> int:
    return int(time.monotonic() * 1000)
