"""Notices at random moments of a training loop: is the run resumable, and from the step that it had made?"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.rig.survival_site import Site, site

SCRIPT = Path(__file__).parent / "survival_job" / "moments.py"
MOMENTS = ("start-up", "compile", "step", "evaluation", "save")
NOTICE_S = 60
T = TypeVar("T")
PATIENCE_S = 300.0


@dataclass(frozen=True, slots=True)
class Moment:
    name: str
    at_s: float
    step: int


def lines(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """One for each notice, then all of them together."""
    chance = random.Random(seed)
    planned = [MOMENTS[number % len(MOMENTS)] for number in range(count)]
    chance.shuffle(planned)
    tried, resumable = Counter[str](), Counter[str]()
    with site() as it:
        job = _submit(it)
        told = it.folder / "moments"
        _until(lambda: any(moment.name == "made" for moment in read(told)))
        for number, name in enumerate(planned):
            line = _one(it, job, told, name, chance)
            tried[name] += 1
            resumable[name] += line["resumable"]
            yield {"measure": "notice", "number": number + 1, **line}
        it.client.cancel(job)  # a job that goes on would outlive the site
    by_moment = {name: [resumable[name], tried[name]] for name in MOMENTS if tried[name]}
    yield {
        "measure": "notices", "tried": sum(tried.values()), "resumable": sum(resumable.values()),
        "by_moment": by_moment,
    }  # fmt: skip


def _submit(it: Site) -> str:
    fields = {
        "name": "notices",
        "num_gpus": 2,
        "environment": {"SURVIVAL_MOMENTS": str(it.folder / "moments")},
    }
    return it.submit(0, script=SCRIPT, checkpoint={}, **fields)


def _one(it: Site, job: str, told: Path, name: str, chance: random.Random) -> dict[str, Any]:
    """Gives one notice, and waits until the next attempt has made a step."""
    seen, away = len(read(told)), []
    if name in ("start-up", "compile"):  # of an attempt that follows a restart
        before = it.client.job(job).attempt
        away.append(_notify(it, job))
        _until(lambda: it.client.job(job).attempt > before)
    if name == "start-up":
        _until(lambda: _attempt(it, job, "scheduled", "running"))
        time.sleep(chance.uniform(0.0, 3.0))
    else:
        _until(lambda: any(moment.name == name for moment in read(told)[seen:]))
        time.sleep(chance.uniform(0.0, 0.8))
    seen = len(read(told))
    made = max((moment.step for moment in read(told) if moment.name == "made"), default=0)
    before = it.client.job(job).attempt
    node = _notify(it, job)
    began = time.monotonic()
    _until(lambda: it.client.job(job).attempt > before and _resumed(read(told), seen))
    after = read(told)[seen:]
    resumed = _resumed(after, 0)
    assert resumed is not None
    last = max([made, *(moment.step for moment in _until_resumed(after) if moment.name == "made")])
    for each in (*away, node):
        it.client.resume_node(each)  # the machine stays after all
    _until(lambda: all(each.state == "ready" for each in it.client.nodes()))
    return {
        "moment": name, "resumable": resumed.step == last, "made": last, "resumed": resumed.step,
        "seconds": round(time.monotonic() - began, 1),
    }  # fmt: skip


def _notify(it: Site, job: str) -> str:
    """Tells a node of the job that its machine goes; its id."""
    node = str(_until(lambda: _node_of(it, job)))
    it.client.call("POST", f"nodes/{node}/notice", json={"seconds": NOTICE_S})
    return node


def _node_of(it: Site, job: str) -> str | None:
    placed = [event for event in it.client.events(job) if event["kind"] == "Placed"]
    if not placed or it.client.job(job).state not in ("scheduled", "running", "checkpointing"):
        return None
    return str(placed[-1]["data"]["members"][0]["node"])


def _attempt(it: Site, job: str, *states: str) -> bool:
    placed = sum(event["kind"] == "Placed" for event in it.client.events(job))
    current = it.client.job(job)
    return current.attempt == placed and current.state in states


def _resumed(moments: list[Moment], seen: int) -> Moment | None:
    """Where the newest attempt went on, once it has made a step."""
    for index in range(len(moments) - 1, seen - 1, -1):
        if moments[index].name == "resumed":
            return moments[index] if any(m.name == "made" for m in moments[index:]) else None
    return None


def _until_resumed(moments: list[Moment]) -> list[Moment]:
    ends = [index for index, moment in enumerate(moments) if moment.name == "resumed"]
    return moments[: ends[-1]] if ends else moments


def read(told: Path) -> list[Moment]:
    if not told.exists():
        return []
    words = [line.split() for line in told.read_text().splitlines()]
    return [Moment(each[0], float(each[1]), int(each[2])) for each in words if len(each) == 3]


def _until(look: Callable[[], T]) -> T:
    deadline = time.monotonic() + PATIENCE_S
    while not (seen := look()):
        if time.monotonic() > deadline:
            raise RuntimeError(f"the job did not go on within {PATIENCE_S:.0f} s")
        time.sleep(0.05)
    return seen
