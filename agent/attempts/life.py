"""One attempt on this node: prepared, started, watched, drained. What happened is in its folder."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from agent.attempts import records
from agent.attempts.orders import Orders, orders_of, stop_order, write_orders
from agent.attempts.phases import IMAGE, LAUNCH, StartPhases
from agent.attempts.preparation import Fetch, NodeFacts, PreparationError, order_of, prepare
from agent.attempts.verdict import Verdict
from agent.attempts.watch import RankWatch
from agent.files import read_json, write_atomically
from agent.launchers.command import is_ranked, processes_of
from agent.launchers.contract import Alive, Ended, Launcher, LauncherError, LaunchOrder, Status
from agent.launchers.lease import boot_ms
from agent.resumes import Resumes, refusal
from agent.streaming import StreamOf
from agent.uplink.attempt import AttemptUplink, UplinkPlan
from agent.uplink.mask import Mask
from agent.uplink.push import Pusher
from agent.uplink.uploads import Uploader
from agent.work_folder import WorkFolder
from platform_core.jobs.ends import EndReason, with_exit_code
from platform_core.jobs.job import MemberPhase
from platform_core.jobs.kept_slots import KEPT_MS
from platform_core.node.observed import AttemptObserved
from platform_core.node.wanted import AttemptWanted, Launch

log = logging.getLogger(__name__)

LOOK_EVERY_SECONDS = 0.2
SHARD_RETRY_SECONDS = 1.0
LEAVING_GRACE_SECONDS = 10
STOPPED_BEFORE_START = Verdict(143, "It was stopped before it started on this node.", EndReason.STOPPED)


@dataclass(frozen=True, slots=True)
class Tools:
    """The tools that all attempts on this node share."""

    facts: NodeFacts
    fetch_for: Callable[[Launch], Fetch]
    stream_of: StreamOf
    uploader: Uploader
    pusher: Pusher
    executor: Executor
    process_launcher: Launcher
    container_launcher: Launcher
    log_cap_bytes: int
    upload_limit_seconds: int
    hang_floor_seconds: int
    changed: Callable[[], None]  # called on the event loop when `observed` is different
    resumes: Resumes

    def launcher_for(self, launch: Launch) -> Launcher:
        return self.container_launcher if launch.container_image else self.process_launcher


class AttemptLife:
    """Starts with `begin`, or with `adopt` for what an earlier agent left; ends with `forget`."""

    def __init__(self, folder: WorkFolder, launch: Launch, mask: Mask | None, tools: Tools) -> None:
        self.folder, self.launch = folder, launch
        self._tools, self._launcher = tools, tools.launcher_for(launch)
        self._observed = AttemptObserved(folder.attempt_id, MemberPhase.PREPARING)
        self._mask = mask
        self._wanted: AttemptWanted | None = None
        self._orders = Orders()
        self._written: Orders | None = None
        self._stop_grace: int | None = None
        self._stop_asked = asyncio.Event()
        self._stop_fetching = threading.Event()
        self._pid = 0
        self._look_trouble = ""
        plan = UplinkPlan(
            folder=folder,
            node_rank=launch.node_rank,
            upload_url=launch.checkpoint_upload_url,
            keep_last=launch.checkpoint.keep_last,
            log_cap_bytes=tools.log_cap_bytes,
            upload_limit_seconds=tools.upload_limit_seconds,
        )
        self._uplink = AttemptUplink(plan, mask, tools.uploader, tools.executor)
        self._ranks = RankWatch(folder, tools.hang_floor_seconds, lambda: self.pid, self._observe)
        self._task: asyncio.Task[None] | None = None
        self._preparing: asyncio.Task[LaunchOrder] | None = None
        self._stood_by = False
        self._phases = StartPhases()
        self._stream = tools.stream_of(folder, launch)

    @property
    def observed(self) -> AttemptObserved:
        return self._observed

    @property
    def pid(self) -> int:
        """Root of its process tree while it runs, else 0."""
        return self._pid if self._observed.phase is MemberPhase.RUNNING else 0

    @property
    def knows_secrets(self) -> bool:
        return self._uplink.knows_secrets

    def know_secrets(self, secrets: tuple[tuple[str, str], ...]) -> None:
        self._mask = Mask(secrets)
        self._uplink.know_secrets(self._mask)

    def learn(self, wanted: AttemptWanted) -> None:
        """Takes the orders to the running script, and orders of stack dumps."""
        self._wanted = wanted
        self._orders = replace(orders_of(wanted), stop=self._orders.stop)
        self._ranks.order(wanted.stacks_order)

    def begin(self) -> None:
        self._run(self._begin(boot_ms()))

    def adopt(self, status: Alive | Ended) -> None:
        self._run(self._go_on(status))

    def stop(self, grace_seconds: int) -> None:
        """Stops the attempt, or, while it is being prepared, never starts it."""
        self._stop_grace = grace_seconds
        now_ms = time.time_ns() // 1_000_000
        self._orders = replace(self._orders, stop=stop_order(now_ms, grace_seconds, self._wanted))
        self._observe(stopping=True)
        self._stop_asked.set()
        self._stop_fetching.set()

    async def forget(self) -> None:
        """Removes everything that an ended attempt left on this node."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._preparing is not None:
            # A thread still writes to the folder.
            await asyncio.gather(self._preparing, return_exceptions=True)
        if self._stream is not None:
            await asyncio.to_thread(self._stream.join)
        self._tools.pusher.remove(self.folder.attempt_id)
        try:
            await asyncio.to_thread(self._launcher.forget, self.folder)
        except LauncherError as error:
            log.warning("what %s ran in could not be removed: %s", self.folder.attempt_id, error)
            if self.folder.process_file.exists():
                return  # the next agent finds the folder and tries again
        await asyncio.to_thread(self._keep_and_delete)

    def _keep_and_delete(self) -> None:
        succeeded = self._observed.exit_code == 0 and self._observed.end is EndReason.SUCCEEDED
        try:
            self._tools.resumes.keep(self.folder, self.launch.job_id, succeeded=succeeded)
        except OSError as error:
            log.warning("the checkpoints of %s are not kept: %s", self.folder.attempt_id, error)
        self.folder.delete()

    async def let_go(self, stop: bool) -> None:
        """Leaves the processes alone, or asks them to end, as the agent itself ends."""
        self._stop_fetching.set()
        if stop and self._observed.phase is MemberPhase.RUNNING:
            await asyncio.to_thread(self._launcher.stop, self.folder, LEAVING_GRACE_SECONDS)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _run(self, life: Coroutine[None, None, None]) -> None:
        self._task = asyncio.create_task(self._guarded(life))

    async def _guarded(self, life: Coroutine[None, None, None]) -> None:
        """Runs the coroutine; an error ends the attempt with a reason rather than leaving it unwatched."""
        try:
            await life
        except Exception as error:
            log.exception("%s is given up", self.folder.attempt_id)
            await self._ask_to_stop(0)
            await self._end(Verdict(125, f"The agent failed: {error!r}.", EndReason.LAUNCHER))

    def _observe(self, **changes: object) -> None:
        self._observed = replace(self._observed, **changes)  # type: ignore[arg-type]
        self._tools.changed()

    async def _begin(self, ordered_ms: int) -> None:
        self._tools.changed()
        tools = self._tools
        preparing = asyncio.create_task(
            _in_own_thread(
                lambda: prepare(
                    self.folder,
                    self.launch,
                    tools.facts,
                    tools.fetch_for(self.launch),
                    self._stop_fetching,
                    self._phases,
                )
            )
        )
        self._preparing = preparing
        stop_asked = asyncio.create_task(self._stop_asked.wait())
        await asyncio.wait({preparing, stop_asked}, return_when=asyncio.FIRST_COMPLETED)
        stop_asked.cancel()
        if self._stop_asked.is_set():
            return await self._end(STOPPED_BEFORE_START)
        tools.pusher.add(self._uplink)
        try:
            order = replace(preparing.result(), ordered_ms=ordered_ms)
            if order.image:
                with self._phases.phase(IMAGE):
                    await asyncio.to_thread(self._launcher.fetch, order)
            with self._phases.phase(LAUNCH):
                await asyncio.to_thread(self._launcher.start, order)
        except PreparationError as error:
            return await self._end(Verdict(125, str(error), error.end, error.resume_damaged))
        except LauncherError as error:
            return await self._end(Verdict(125, str(error), EndReason.LAUNCHER))
        return await self._watch()

    async def _go_on(self, status: Alive | Ended) -> None:
        self._tools.pusher.add(self._uplink)
        known = _read_verdict(self.folder)
        if known is not None:
            return await self._end(known)
        if isinstance(status, Ended):
            return await self._end(await self._verdict(status))
        return await self._watch()

    async def _watch(self) -> None:
        self._observe(phase=MemberPhase.RUNNING, phases=self._phases.over)
        watching = [asyncio.create_task(self._ranks.run()), asyncio.create_task(self._bring_shards())]
        if self._stream is not None:
            self._stream.start()
        try:
            ended = await self._until_ended()
        finally:
            for task in watching:
                task.cancel()
            if self._stream is not None:
                self._stream.stop()
        return await self._end(await self._verdict(ended))

    async def _bring_shards(self) -> None:
        """For as long as its ranks may ask for parts of the checkpoint that they go on from."""
        while self.launch.resume is not None:
            try:
                await asyncio.to_thread(self._tools.resumes.bring_wanted, self.launch, self.folder)
            except Exception as error:  # whatever a store or the network may raise; the ranks wait
                log.warning("a shard for %s did not come: %s", self.folder.attempt_id, error)
                await asyncio.sleep(SHARD_RETRY_SECONDS)
            await asyncio.sleep(LOOK_EVERY_SECONDS)

    async def _until_ended(self) -> Ended:
        stop_sent: int | None = None
        while True:
            status = await self._look()
            if isinstance(status, Ended):
                return status
            if isinstance(status, Alive):
                self._pid = status.pid
            await self._write_orders()
            await self._stand_by()
            if self._stop_grace is not None and stop_sent != self._stop_grace:
                stop_sent = await self._ask_to_stop(self._stop_grace)
            await self._pause(wakes=self._stop_grace is None)

    async def _stand_by(self) -> None:
        """Once, when a rank has made a step: the imports of the standby shall not delay those of the ranks. Of an
        attempt of an earlier agent, too: its standby has ended with that agent."""
        if self._stood_by or not self._ranks.have_begun:
            return
        self._stood_by = True
        try:
            order = order_of(self.folder, self.launch, self._tools.facts)
            await asyncio.to_thread(self._launcher.stand_by, order)
        except (LauncherError, PreparationError) as error:
            log.warning("%s: %s", self.folder.attempt_id, error)

    async def _write_orders(self) -> None:
        orders = self._orders
        if orders == (self._written or Orders()):
            return
        try:
            await asyncio.to_thread(write_orders, self.folder, orders)
            self._written = orders
        except OSError as error:  # a full disk; the `stop` file and the signal do not depend on it
            log.debug("the orders of %s are not written: %s", self.folder.attempt_id, error)

    async def _pause(self, wakes: bool) -> None:
        """Until the next look; an order to stop cuts it short."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_EVERY_SECONDS):
                await (self._stop_asked.wait() if wakes else asyncio.sleep(LOOK_EVERY_SECONDS))

    async def _look(self) -> Status | None:
        try:
            return await asyncio.to_thread(self._launcher.poll, self.folder)
        except (
            Exception
        ) as error:  # a full disk or an engine that does not answer: the attempt itself may be well
            if repr(error) != self._look_trouble:  # it is asked again every second
                self._look_trouble = repr(error)
                log.warning("cannot tell how %s is: %.300s", self.folder.attempt_id, self._look_trouble)
            await asyncio.sleep(1)
            return None

    async def _ask_to_stop(self, grace_seconds: int) -> int | None:
        """The grace that was ordered; None when the launcher could not be reached, so that it is tried again."""
        try:
            await asyncio.to_thread(self._launcher.stop, self.folder, grace_seconds)
        except LauncherError as error:
            log.warning("%s could not be asked to stop: %s", self.folder.attempt_id, error)
            return None
        return grace_seconds

    async def _verdict(self, ended: Ended) -> Verdict:
        expected = processes_of(self.launch) if is_ranked(self.launch) else 0
        resumed = self.launch.resume is not None
        verdict = await asyncio.to_thread(records.verdict_of, self.folder, ended, expected, resumed)
        if not resumed or ended.stopped or not ended.exit_code:
            return verdict
        if refused := await asyncio.to_thread(refusal, self.folder):
            return Verdict(ended.exit_code, refused, EndReason.DATA_REVIEW, resume_damaged=True)
        return verdict

    async def _end(self, verdict: Verdict) -> None:
        reason = self._mask.sentence(verdict.reason) if self._mask is not None else verdict.reason
        verdict = replace(verdict, reason=reason)
        _write_verdict(self.folder, verdict)
        waits = 0 if verdict.end is EndReason.SUCCEEDED else KEPT_MS / 1000
        self._launcher.stand_down(self.launch.job_id, waits)
        self._uplink.end()
        self._observe(
            phase=MemberPhase.EXITED,
            phases=self._phases.over,
            stopping=False,
            hang=None,
            exit_code=verdict.exit_code,
            reason=verdict.reason,
            end=verdict.end,
            resume_damaged=verdict.resume_damaged,
        )
        log.info("%s ended with %s. %s", self.folder.attempt_id, verdict.exit_code, verdict.reason)
        self._tools.pusher.add(self._uplink)
        while not self._uplink.drained:
            await asyncio.sleep(LOOK_EVERY_SECONDS)
        self._observe(uplink_drained=True)


def _write_verdict(folder: WorkFolder, verdict: Verdict) -> None:
    document = {
        "exit_code": verdict.exit_code,
        "reason": verdict.reason,
        "end": verdict.end,
        "resume_damaged": verdict.resume_damaged,
    }
    try:
        write_atomically(folder.verdict_file, json.dumps(document).encode(), durable=True)
    except OSError as error:
        log.warning("the verdict on %s could not be kept: %s", folder.attempt_id, error)


def _end_reason(document: dict[str, Any]) -> EndReason:
    """The stored reason; what another version of the agent wrote and this one does not know is a script error."""
    try:
        end = EndReason(document.get("end", EndReason.SCRIPT_ERROR))
    except ValueError:
        end = EndReason.SCRIPT_ERROR
    return with_exit_code(end, int(document["exit_code"]))


def _read_verdict(folder: WorkFolder) -> Verdict | None:
    document = read_json(folder.verdict_file)
    if document is None:
        return None
    return Verdict(
        int(document["exit_code"]),
        str(document["reason"]),
        _end_reason(document),
        bool(document.get("resume_damaged")),
    )


async def _in_own_thread(work: Callable[[], LaunchOrder]) -> LaunchOrder:
    """Preparations wait for datasets, whose transfers need the threads that all share."""
    executor = ThreadPoolExecutor(1, "prepare")
    try:
        return await asyncio.get_running_loop().run_in_executor(executor, work)
    finally:
        executor.shutdown(wait=False)
