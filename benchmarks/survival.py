"""Training that survives: `python -m benchmarks.survival [--minutes 20] [--seed N] [--measure live|simulated|notices]`.

`live`: a job of four ranks on the real platform (PostgreSQL, gateway, three agents of two slots) under a seeded
schedule of faults, and beside it, in the same run, plain torchrun with elastic restarts, the same script and the same
interval under rank kills. A fault comes when the nodes of the job have processes that stand by, as they do for nearly
all of its time. JSON lines: one a fault `{measure: "fault", fault, lost_s, phases}`, then by kind, then
`{measure: "ettr", ours, optimum}` and `{measure: "rank_kills", ours_s, torchrun_s, ratio, bound}`. Lost is the time
from the fault until the first step that had not been made before it, less one step.

`simulated`: 1,024 GPUs for two weeks, a failure each 7.9 h: `{measure: "simulated", saves, interval, ettr}` of fixed
intervals and ours. `notices`: spot notices at random moments of a loop, one after the other, `{measure: "notices",
tried, resumable, by_moment}`; resumable is one that went on from the very step that had been made.
"""

from __future__ import annotations

import json
import random
import statistics
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import psutil

from benchmarks.rig import survival_notices, survival_simulated
from benchmarks.rig.survival_faults import FAULTS, Outage, rank_killed
from benchmarks.rig.survival_site import Site, recoveries, site, steps_of
from benchmarks.rig.survival_torchrun import torchrun
from platform_core.checkpointing.interval import daly, waste

EVERY = 40  # steps between checkpoints, for both
STEP_S = 0.05
SETTLED_STEPS = 60  # after a recovery, before the next fault
PATIENCE_S = 150.0
BOUND = 0.6
SHORTEST_S = 3.0  # what a fault may take until it is felt


def killed(rank: psutil.Process) -> Outage:
    rank.kill()
    return Outage()


def say(**line: Any) -> None:
    click.echo(json.dumps(line))


def until(look: Callable[[], Any], what: str, seconds: float = PATIENCE_S) -> Any:
    deadline = time.monotonic() + seconds
    while not (seen := look()):
        if time.monotonic() > deadline:
            raise click.ClickException(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.02)
    return seen


def furthest(progress: Path) -> int:
    return max((step for step, _ in steps_of(progress)), default=0)


def settle(progress: Path, chance: random.Random) -> None:
    """Waits for a moment that is spread evenly between two checkpoints."""
    target = furthest(progress) + SETTLED_STEPS + chance.randrange(EVERY)
    until(lambda: furthest(progress) >= target, f"step {target}")


def lost_s(progress: Path, at: float) -> float | None:
    """Seconds from `at` until a step that had not been made before, less one step; None: not yet."""
    steps = steps_of(progress)
    before = max((step for step, when in steps if when <= at), default=0)
    anew = next((when for step, when in steps if when > at and step > before), None)
    return None if anew is None else max(0.0, anew - at - STEP_S)


def suffer(progress: Path, begin: Callable[[], Outage]) -> float:
    """Lets one fault happen, mends it, and waits for the first new step after all of that; the seconds lost."""
    at = time.time()
    outage = begin()
    mended = False
    longest = at + outage.seconds + PATIENCE_S
    while True:
        if not mended and time.time() >= at + outage.seconds:
            outage.mend()
            mended = True
        lost = lost_s(progress, max(at + SHORTEST_S, at + outage.seconds))
        if lost is not None and mended:
            return _standstill(progress, at, time.time())
        if time.time() > longest:
            raise click.ClickException("the job did not go on")
        time.sleep(0.05)


def _standstill(progress: Path, at: float, until_s: float) -> float:
    """The time without new steps between: each gap between new steps, beyond the usual."""
    best, last, lost = 0, at, 0.0
    for step, when in steps_of(progress):
        if step <= best:
            continue
        if when > at:
            lost += max(0.0, when - max(last, at) - 2 * STEP_S)
        best, last = step, when
    return lost


def peer(kills: int, seed: int) -> list[float]:
    """Seconds that plain torchrun loses for each killed rank."""
    chance = random.Random(seed)
    with TemporaryDirectory() as name:
        folder = Path(name)
        progress = folder / "progress"
        with torchrun(folder, EVERY) as launcher:
            losses = []
            for _ in range(kills):
                settle(progress, chance)
                ranks = sorted(launcher.children(), key=lambda child: child.pid)
                losses.append(suffer(progress, partial(killed, chance.choice(ranks))))
                say(measure="peer_fault", fault="rank_killed", lost_s=round(losses[-1], 2))
            return losses


def ours(minutes: float, seed: int, faults: list[str], kills: int, **fields: Any) -> dict[str, list[float]]:
    """Seconds that the job on the platform loses, by kind of fault."""
    chance, losses = random.Random(seed), dict[str, list[float]]()
    with site() as it:
        job_id = it.submit(EVERY, **fields)
        until(lambda: furthest(it.progress) > SETTLED_STEPS, "the first steps")
        began = time.monotonic()
        schedule = ["rank_killed"] * kills
        while time.monotonic() - began < 60 * minutes or schedule:
            if not schedule:
                schedule = list(faults)
                chance.shuffle(schedule)
            kind = schedule.pop()
            it.until_stood_by()
            settle(it.progress, random.Random(chance.random()))
            before = {row["attempt"] for row in recoveries(it.client, job_id)["results"]}  # type: ignore[attr-defined]
            lost = suffer(it.progress, lambda: FAULTS[kind](it, chance))  # noqa: B023
            settle(it.progress, random.Random(0))
            rows = recoveries(it.client, job_id)["results"]
            new = [row for row in rows if row["attempt"] not in before]  # type: ignore[attr-defined]
            losses.setdefault(kind, []).append(lost)
            say(
                measure="fault", fault=kind, lost_s=round(lost, 2), reasons=[row["reason"] for row in new],
                phases_ms=[row["phases_ms"] for row in new], steps_lost=sum(row["steps_lost"] for row in new),
            )  # fmt: skip
        _conclude(it, job_id, losses, time.monotonic() - began)
    return losses


def _conclude(it: Site, job_id: str, losses: dict[str, list[float]], wall_s: float) -> None:
    it.end.write_text("")
    until(lambda: it.client.job(job_id).is_finished, "the end of the job")
    job = it.client.job(job_id)
    series = [int(step) for step, *_ in it.client.metrics(job_id)["series"]["loss"]]
    last = furthest(it.progress)
    say(
        measure="points", state=job.state, attempts=job.attempt, steps=last,
        missing=len(set(range(1, last + 1)) - set(series)), duplicated=len(series) - len(set(series)),
    )  # fmt: skip
    steps = steps_of(it.progress)
    made = {step for step, _ in steps}
    usual = statistics.median(after - before for (_, before), (_, after) in pairwise(steps))
    every = sum(map(len, losses.values()))
    for kind, seconds in sorted(losses.items()):
        say(
            measure="by_fault", fault=kind, count=len(seconds), mean_lost_s=round(statistics.mean(seconds), 2)
        )
    if every:
        mtbf_ms, save_ms = round(1000 * wall_s / every), 30
        restart_ms = round(1000 * statistics.median(second for each in losses.values() for second in each))
        optimum = 1 - waste(daly(save_ms, mtbf_ms), save_ms, mtbf_ms, restart_ms)
        say(
            measure="ettr", ours=round(len(made) * usual / (steps[-1][1] - steps[0][1]), 4), optimum=round(optimum, 4),
            reported=recoveries(it.client, job_id)["effective_training_time"], mtbf_s=round(mtbf_ms / 1000, 1),
        )  # fmt: skip


@click.command()
@click.option("--minutes", default=20.0, show_default=True, help="Of faults, after the rank kills.")
@click.option("--seed", default=1, show_default=True)
@click.option(
    "--measure", type=click.Choice(["live", "simulated", "notices"]), default="live", show_default=True
)
@click.option("--kills", default=10, show_default=True, help="Ranks killed, of ours and of torchrun's.")
@click.option("--notices", default=100, show_default=True, help="How many, with --measure notices.")
@click.option(
    "--fault", "faults", multiple=True, type=click.Choice(list(FAULTS)), help="Only these; repeatable."
)
@click.option("--peer/--no-peer", "with_peer", default=True, help="Plain torchrun beside ours.")
def main(
    minutes: float,
    seed: int,
    measure: str,
    kills: int,
    notices: int,
    faults: tuple[str, ...],
    with_peer: bool,
) -> None:
    if measure == "simulated":
        for line in survival_simulated.lines(seed):
            say(**line)
    if measure == "notices":
        for line in survival_notices.lines(notices, seed):
            say(**line)
    if measure == "live":
        theirs = peer(kills, seed) if with_peer and kills else []
        mine = ours(minutes, seed, list(faults or FAULTS), kills).get(rank_killed.__name__, [])
        if theirs and mine:
            ratio = statistics.mean(mine) / statistics.mean(theirs)
            say(
                measure="rank_kills", ours_s=round(statistics.mean(mine), 2),
                torchrun_s=round(statistics.mean(theirs), 2), ratio=round(ratio, 3), bound=BOUND,
            )  # fmt: skip


if __name__ == "__main__":
    main()
