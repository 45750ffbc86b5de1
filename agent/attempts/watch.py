"""Watches the progress of an attempt's ranks on this node, and takes their stacks when they hang or when asked."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable
from typing import Any

from agent.attempts import stacks
from agent.job_files import JobPath
from agent.work_folder import WorkFolder
from platform_core.jobs import hangs
from platform_core.jobs.hangs import Hang, Progress
from platform_core.jobs.stacks import diagnose
from platform_core.node.observed import HangObserved, StacksObserved

log = logging.getLogger(__name__)

LOOK_EVERY_SECONDS = 1.0
_MOST_RANKS = 10_000
_MOST_BYTES = 4_096


class RankWatch:
    """Lives on the event loop; `report` takes the changed fields of the attempt's observed state."""

    def __init__(
        self, folder: WorkFolder, floor_seconds: int, pid: Callable[[], int], report: Callable[..., None]
    ) -> None:
        self._folder, self._floor_ms = folder, floor_seconds * 1000
        self._pid, self._report = pid, report
        self._watch: hangs.Watch = ()
        self._order = self._answered = 0
        self._asked = asyncio.Event()
        self._hang: Hang | None = None  # as it was reported

    @property
    def have_begun(self) -> bool:
        """Whether a rank has made a step."""
        return any(pace.steps for pace in self._watch)

    def order(self, number: int) -> None:
        """Asks for stack dumps; a number that was answered asks for nothing."""
        if number > self._order:
            self._order = number
            self._asked.set()

    async def run(self) -> None:
        """For ever; never raises, for a watch that fails must not end what it watches."""
        while True:
            try:
                await self._look()
            except Exception:
                log.exception("the progress of %s could not be judged", self._folder.attempt_id)
            try:
                async with asyncio.timeout(LOOK_EVERY_SECONDS):
                    await self._asked.wait()
            except TimeoutError:
                continue

    async def _look(self) -> None:
        ordered, self._asked = self._asked.is_set(), asyncio.Event()
        progress = await asyncio.to_thread(read_progress, self._folder)
        now_ms = _now_ms()
        self._watch = hangs.observe(self._watch, progress, now_ms)
        hang = hangs.judge(self._watch, now_ms, self._floor_ms) if self._floor_ms else None
        if self._hang is not None and (hang is None or hang.since_ms != self._hang.since_ms):
            self._hang = None
            log.info("%s makes progress again", self._folder.attempt_id)
            self._report(hang=None)
        suspected = hang if self._hang is None else None
        if self._pid() and (ordered or suspected is not None):
            await self._dump(suspected)
        elif ordered:
            self._asked.set()  # the launcher has not been looked at yet: the next look

    async def _dump(self, suspected: Hang | None) -> None:
        answers, steps = self._order, {pace.progress.rank: pace.progress.step for pace in self._watch}
        ranks = await asyncio.to_thread(stacks.dump_twice, self._folder, self._pid(), steps)
        now_ms = _now_ms()
        taken = StacksObserved(answers, _wall_ms(), ranks)
        if suspected is None:
            self._report(stacks=taken)
            return
        verdict = diagnose(ranks)
        if verdict.works:
            self._watch = hangs.forgive(self._watch, now_ms)
            log.info(
                "%s: %s, no hang: %s", self._folder.attempt_id, suspected.sentence(now_ms), verdict.sentence
            )
            return
        self._hang = suspected
        log.warning("%s hangs: %s; %s", self._folder.attempt_id, suspected.sentence(now_ms), verdict.sentence)
        silent_ms = now_ms - suspected.since_ms
        seen = HangObserved(_wall_ms(), silent_ms, suspected.limit_ms, suspected.step)
        self._report(stacks=taken, hang=seen)


def read_progress(folder: WorkFolder) -> list[Progress]:
    """What the ranks say in their files; the job writes these, so anything else in them is skipped."""
    place = JobPath(folder.path, "progress")
    known = []
    for name in place.entries(_MOST_RANKS):
        if not (name.isascii() and name.isdigit() and len(name) < 8):
            continue
        try:
            document: Any = json.loads((place / name).read(0, _MOST_BYTES))
            step, at_ms, made = int(document["step"]), int(document["at_ms"]), int(document.get("made", 0))
            if not all(0 <= number < 2**63 for number in (step, at_ms, made)):
                continue
            doing = str(document.get("doing", hangs.STEP))[:40]
            known.append(Progress(int(name), step, at_ms, doing, made))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
            continue
    return known


def _now_ms() -> int:
    """Of a clock that nobody sets."""
    return int(time.monotonic() * 1000)


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
