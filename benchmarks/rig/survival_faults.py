"""What goes wrong in `benchmarks.survival`. Each fault returns what mends it, and for how many seconds it lasts."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from benchmarks.rig.survival_site import GPU_TYPE, NODES, SLOTS, Site

AWAY_S = 40.0  # of a node that was killed
NOTICE_S = 12.0
PREEMPTED_S = 120.0


@dataclass(frozen=True, slots=True)
class Outage:
    """Lasts until `mend` is called, `seconds` after it began."""

    seconds: float = 0.0
    mend: Callable[[], None] = lambda: None


Fault = Callable[[Site, random.Random], Outage]


def rank_killed(site: Site, chance: random.Random) -> Outage:
    ranks = [rank for node in site.nodes for rank in node.ranks()]
    chance.choice(ranks).kill()
    return Outage()


def node_killed(site: Site, chance: random.Random) -> Outage:
    node = chance.choice(site.busy())
    node.kill()
    return Outage(AWAY_S, node.start)


def agent_killed(site: Site, chance: random.Random) -> Outage:
    node = chance.choice(site.busy())
    node.kill_agent()
    return Outage(3.0, node.start)


def gateway_killed(site: Site, chance: random.Random) -> Outage:
    site.kill_gateway()
    return Outage(3.0, site.start_gateway)


def store_down(site: Site, chance: random.Random) -> Outage:
    away = site.store.with_name("store.away")
    site.store.rename(away)
    site.store.write_bytes(b"")  # a file in its place: nothing below it can be read or made

    def mend() -> None:
        site.store.unlink(missing_ok=True)
        away.rename(site.store)

    return Outage(12.0, mend)


def disk_full(site: Site, chance: random.Random) -> Outage:
    """Of one node, which has a small disk of its own: never that of the machine."""
    node = chance.choice(site.busy())
    if not node.has_own_disk:
        raise RuntimeError(
            "the fault disk_full needs the right to mount a disk; name other faults with --fault"
        )
    ballast = node.data / "ballast"
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(b"\0" * (1 << 20))
    return Outage(10.0, lambda: ballast.unlink(missing_ok=True))


def hang(site: Site, chance: random.Random) -> Outage:
    """A rank stands still; the platform's own detection, or our mercy after a minute, ends that."""
    rank = chance.choice([rank for node in site.nodes for rank in node.ranks()])
    rank.send_signal(signal.SIGSTOP)

    def mend() -> None:
        with suppress(Exception):
            os.kill(rank.pid, signal.SIGCONT)

    return Outage(60.0, mend)


def spot_notice(site: Site, chance: random.Random) -> Outage:
    node = chance.choice(site.busy())
    node.notice.write_text("TRUE")

    def mend() -> None:
        node.kill()
        node.start()

    return Outage(NOTICE_S, mend)


def preemption(site: Site, chance: random.Random) -> Outage:
    """A job of a team that is guaranteed the slots which the job borrows."""
    began, job = time.time(), site.client.find_job("bench/survival")
    spec = {
        "name": "urgent", "team": "urgent", "command": "sleep 3", "strategy": "custom", "gpu_type": GPU_TYPE,
        "num_gpus": NODES * SLOTS, "max_runtime_hours": 1, "priority": 20,
    }  # fmt: skip
    site.client.submit(spec, idempotency_key=f"urgent-{chance.random()}")
    while site.client.job(job.id).attempt == job.attempt and time.time() < began + PREEMPTED_S:
        time.sleep(0.1)
    return Outage(time.time() - began)


FAULTS: dict[str, Fault] = {
    fault.__name__: fault
    for fault in (
        rank_killed, node_killed, agent_killed, gateway_killed, store_down, disk_full, hang, spot_notice, preemption,
    )
}  # fmt: skip
