"""What can go wrong while a model is on its way, and how long that should hold the others up."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agent.transfer.orders.pull import LOOK_AGAIN_SECONDS
from agent.transfer.peers.neighbour import SLOWEST, Patience
from benchmarks.rig import cluster, network
from benchmarks.rig.coordinator import Clocks, Coordinator
from benchmarks.rig.gateway import Gateway
from benchmarks.rig.network import Network
from platform_core.distribution.content.manifest import Manifest
from platform_core.distribution.planning.forest import STORE, Forest

TRANSFER_PORT = "7800"  # a fixed one: who comes back is found where it was
AWAY_SECONDS = 10.0
REFUSES_SECONDS, STALLS_SECONDS = 2.0, 3.0
TENTH = 0.1
SPARE_DISK = 80 << 20  # beyond the model: what an agent leaves free, and its records


@dataclass
class Run:
    """One deployment under way."""

    manifest: Manifest
    network: Network
    rate_mbit: float
    store: cluster.Store
    fleet: cluster.Agents
    gateway: Gateway
    coordinator: Coordinator
    coordinating: asyncio.Task[None] | None = None
    touched: set[str] = field(default_factory=set)  # their own time does not count
    lost: set[str] = field(default_factory=set)  # they are not waited for
    returned: dict[str, tuple[float, int]] = field(default_factory=dict)  # when, and with how many bytes
    told: dict[str, object] = field(default_factory=dict)  # what else there is to say
    done: dict[str, float] = field(default_factory=dict)
    start: float = 0.0

    @property
    def away_s(self) -> float:
        return min(AWAY_SECONDS, self.manifest.total_bytes * 8e-6 / self.rate_mbit / 2)

    @property
    def forest(self) -> Forest:
        return self.coordinator.forest

    def puller(self) -> str:
        return next(seat.node for seat in self.forest.seats if STORE in seat.parents)

    def inner(self) -> str:
        """Somebody who feeds others and pulls as little as possible from the store."""
        feeding = {parent for seat in self.forest.seats for parent in seat.parents}
        seats = [seat for seat in self.forest.seats if seat.node in feeding]
        return min(seats, key=lambda seat: (seat.parents.count(STORE), seat.node)).node

    def child_of(self, node: str) -> str:
        return next(seat.node for seat in self.forest.seats if node in seat.parents)

    def data(self, node: str) -> Path:
        return self.fleet.folder / f"data-{node}"

    def home(self, node: str) -> Path:
        return self.data(node) / "models" / "rig" / "model" / "1"

    def orders(self, forest: Forest) -> Mapping[str, cluster.Order]:
        return cluster.orders(forest, self.store.url, self.gateway)

    def coordinate(self) -> None:
        self.coordinating = asyncio.create_task(self.coordinator.run())

    async def stop_coordinating(self) -> None:
        if self.coordinating is not None:
            self.coordinating.cancel()
            await asyncio.gather(self.coordinating, return_exceptions=True)
        await self.gateway.stop()

    def kill(self, *nodes: str) -> None:
        for node in nodes:
            self.touched.add(node)
            self.lost.add(node)
            self.fleet.kill(node)

    def bring_back(self, node: str, having: int) -> None:
        self.lost.discard(node)
        self.returned[node] = (time.monotonic(), having)
        self.fleet.start(node, "--transfer-port", TRANSFER_PORT)


async def worker_killed(run: Run) -> None:
    """It returns and fetches only what it lacks."""
    node = run.inner()
    run.kill(node)
    await asyncio.sleep(3)
    run.bring_back(node, run.gateway.observed[node].bytes_done)


async def two_neighbours_killed(run: Run) -> None:
    node = run.inner()
    run.kill(node, run.child_of(node))


async def puller_killed(run: Run) -> None:
    run.kill(run.puller())


async def worker_paused(run: Run) -> None:
    node = run.inner()
    run.touched.add(node)
    run.fleet.signal(node, signal.SIGSTOP)
    await asyncio.sleep(run.away_s)
    run.fleet.signal(node, signal.SIGCONT)


async def node_cut_off(run: Run) -> None:
    node = run.inner()
    run.touched.add(node)
    run.network.cut(run.network.hosts[node])
    await asyncio.sleep(run.away_s)
    run.network.mend(run.network.hosts[node])


async def link_at_a_tenth(run: Run) -> None:
    """For good: it gets what its link gives, and nobody waits for it."""
    node = run.inner()
    run.touched.add(node)
    run.lost.add(node)
    run.network.shape(run.network.hosts[node], run.rate_mbit * TENTH)


async def sends_at_a_tenth(run: Run) -> None:
    """A link that is bad in one direction: it takes as much as anybody, and those it feeds are late."""
    node = run.inner()
    run.touched.add(node)
    run.network.shape_sending(run.network.hosts[node], run.rate_mbit * TENTH)


async def disk_flips_bits(run: Run) -> None:
    """Of one who feeds others, while its agent is away; a follower that begins anew is offered what became of it.

    Whoever is sent some of it names the sender; one that nobody asks in time finds out by its own digest of the file.
    """
    node = run.inner()
    follower = run.child_of(node)
    run.kill(node, follower)
    shutil.rmtree(run.data(follower))
    flip_bits(
        run.data(node) / "transfer" / run.manifest.id / "files" / "weights.bin", run.manifest.piece_size
    )
    run.bring_back(node, run.gateway.observed[node].bytes_done)
    run.bring_back(follower, 0)

    def names() -> list[str]:
        return sorted(name for name, seen in run.gateway.observed.items() if node in seen.distrusted)

    await run.gateway.until(lambda: bool(names()) or {node, follower} <= set(run.gateway.done_at), 60)
    itself = "has changed on disk" in (run.fleet.folder / f"{node}.log").read_text()
    run.told["found_by"] = names() or [node] * itself


def flip_bits(path: Path, every: int) -> None:
    with path.open("r+b", buffering=0) as file:
        for at in range(0, path.stat().st_size, every):
            file.seek(at)
            byte = file.read(1)
            file.seek(at)
            file.write(bytes([byte[0] ^ 1]))


async def disk_full(run: Run) -> None:
    """Somebody else takes all the room there was."""
    node = run.inner()
    run.touched.add(node)
    run.lost.add(node)
    with (run.data(node) / "somebody-elses").open("wb") as file:
        try:
            while True:
                file.write(bytes(1 << 20))
        except OSError:
            pass
    await run.gateway.until(lambda: run.gateway.observed[node].error_code == "disk_full", 60)
    run.told["its_error"] = run.gateway.observed[node].error


async def coordinator_killed(run: Run) -> None:
    await run.stop_coordinating()
    await asyncio.sleep(run.away_s)
    await run.gateway.start(network.HUB_ADDRESS)
    run.coordinate()


async def coordinator_replaced(run: Run) -> None:
    """By one that has nothing but the plan; what happened meanwhile, a worker lost, it learns from the agents."""
    await run.stop_coordinating()
    run.kill(run.inner())
    await asyncio.sleep(run.away_s)
    run.gateway = Gateway(run.manifest, run.gateway.port)
    begun = time.monotonic()
    await run.gateway.start(network.HUB_ADDRESS)
    alive = set(run.fleet.hosts) - run.lost
    await run.gateway.until(lambda: alive <= set(run.gateway.observed), 60)
    run.told["adopted_s"] = round(time.monotonic() - begun, 2)
    run.coordinator = Coordinator(run.gateway, run.forest, run.orders)
    run.coordinate()


async def store_answers_503(run: Run) -> None:
    run.store.behave("503")
    await asyncio.sleep(REFUSES_SECONDS)
    run.store.behave("ok")


async def store_stalls(run: Run) -> None:
    run.store.behave("stall")
    await asyncio.sleep(STALLS_SECONDS)
    run.store.behave("ok")


def small_disk(data: Path, size: int) -> None:
    """A file system of its own below this folder."""
    data.mkdir(parents=True)
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size + SPARE_DISK}", "tmpfs", str(data)], check=True
    )


@dataclass(frozen=True, slots=True)
class Fault:
    """`expected`: by how much the last of the others should be later, in seconds, from the manifest and the lanes.

    It is allowed to be `slack` more: the machine that plays all hosts is one.
    """

    happens: Callable[[Run], Awaitable[None]]
    expected: Callable[[Run], float]
    slack: float = 1.0
    needs_small_disk: bool = False


def _at_once(run: Run) -> float:
    """A closed connection is news; the next source is asked then, at the latest at the next look."""
    return LOOK_AGAIN_SECONDS


def _after_silence(run: Run) -> float:
    """Nothing is closed: it takes the patience for a silent neighbour, and the time of a part on the slowest link."""
    return Patience().silence + run.manifest.piece_size / SLOWEST + LOOK_AGAIN_SECONDS


def _after_judging(windows: int) -> Callable[[Run], float]:
    """One lane comes at a tenth until so many windows running have been bad, the first of which had begun before, and
    the plan is mended; what was left comes at the end over the whole link."""
    clocks = Clocks()
    seconds = (windows + 1) * clocks.measure_ms / 1000 + clocks.round_s
    return lambda run: (1 - TENTH) * seconds / run.forest.lanes


def _after_refusing(run: Run) -> float:
    """It is asked again after 1 s, in vain, then after 2 s."""
    return 3.0


FAULTS: dict[str, Fault] = {
    "worker_killed": Fault(worker_killed, _at_once),
    "two_neighbours_killed": Fault(two_neighbours_killed, _at_once),
    "puller_killed": Fault(puller_killed, _at_once),
    "worker_paused": Fault(worker_paused, _after_silence),
    "node_cut_off": Fault(node_cut_off, _after_silence),
    "link_at_a_tenth": Fault(link_at_a_tenth, _after_judging(windows=2)),
    "sends_at_a_tenth": Fault(sends_at_a_tenth, _after_judging(windows=3)),
    "disk_flips_bits": Fault(disk_flips_bits, _at_once),
    "disk_full": Fault(disk_full, _at_once, needs_small_disk=True),
    "coordinator_killed": Fault(coordinator_killed, lambda run: 0.0),
    "coordinator_replaced": Fault(coordinator_replaced, _at_once),
    "store_answers_503": Fault(store_answers_503, _after_refusing),
    "store_stalls": Fault(store_stalls, lambda run: STALLS_SECONDS),
}
