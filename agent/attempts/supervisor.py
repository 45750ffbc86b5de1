"""All attempts of this node: adopts them at the start, carries out what `reconcile` decides, observes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass

from agent.attempts import records
from agent.attempts.life import STOPPED_BEFORE_START, AttemptLife, Tools
from agent.launchers.contract import Alive, Ended, Launcher, LauncherError, NotStarted, Status
from agent.reconcile import ForgetAttempt, StartAttempt, StopAttempt
from agent.uplink.mask import Mask
from agent.work_folder import WorkFolder, WorkFolders
from platform_core.jobs.ends import EndReason
from platform_core.jobs.job import MemberPhase
from platform_core.node.observed import AttemptObserved
from platform_core.node.wanted import Launch, Wanted
from platform_core.trace_context import trace_id
from trainmaster import structured_logs

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunningAttempt:
    folder: WorkFolder
    launch: Launch
    pid: int


class Supervisor:
    """Lives on the event loop; nothing here blocks it."""

    def __init__(self, folders: WorkFolders, tools: Tools) -> None:
        self._folders, self._tools = folders, tools
        self._lives: dict[str, AttemptLife] = {}
        # Attempts without a life here, reported as ended so that the server hears of them.
        self._tombstones: dict[str, AttemptObserved] = {}
        self._leftovers: dict[str, WorkFolder] = {}  # prepared by an earlier agent, never started
        self._background: set[asyncio.Task[None]] = set()

    def observed(self) -> tuple[AttemptObserved, ...]:
        return (*(life.observed for life in self._lives.values()), *self._tombstones.values())

    def running(self) -> tuple[RunningAttempt, ...]:
        return tuple(
            RunningAttempt(life.folder, life.launch, life.pid) for life in self._lives.values() if life.pid
        )

    async def adopt_all(self) -> None:
        """Takes over what an earlier agent of this node left. Once, before the first session."""
        for folder in list(self._folders):
            record = records.read_record(folder)
            if record is None:
                self._leftovers[folder.attempt_id] = folder
                continue
            launcher = self._tools.launcher_for(record.launch)
            status = await _adopt(launcher, folder)
            if isinstance(status, NotStarted):
                if not folder.verdict_file.exists():
                    self._leftovers[folder.attempt_id] = folder
                    continue
                status = Ended(125)  # it never came to run; the verdict says why
            names = record.secret_names
            seen = await asyncio.to_thread(launcher.secrets, folder, names) if names else {}
            mask = Mask(tuple(seen.items())) if len(seen) == len(names) else None
            life = AttemptLife(folder, record.launch, mask, self._tools)
            self._lives[folder.attempt_id] = life
            life.adopt(status)
            log.info("adopted %s: %s", folder.attempt_id, type(status).__name__.lower())

    def learn(self, wanted: Wanted) -> None:
        """Takes from a wanted state what is no action: orders to scripts, secret values, leftovers to delete."""
        for attempt in wanted.attempts:
            life = self._lives.get(attempt.attempt_id)
            if life is not None:
                life.learn(attempt)
            if life is not None and not life.knows_secrets and attempt.launch is not None:
                life.know_secrets(attempt.launch.secrets)
        known = {attempt.attempt_id for attempt in wanted.attempts}
        for attempt_id in [leftover for leftover in self._leftovers if leftover not in known]:
            self._spawn(asyncio.to_thread(self._leftovers.pop(attempt_id).delete))

    def start(self, action: StartAttempt) -> None:
        wanted = action.wanted
        assert wanted.launch is not None
        try:
            folder = self._folders.of(wanted.attempt_id)
        except ValueError as error:
            self._report_end(wanted.attempt_id, 125, str(error), EndReason.LAUNCHER)
            return
        self._leftovers.pop(wanted.attempt_id, None)
        trace = trace_id(wanted.launch.traceparent) or ""
        with structured_logs.bound(attempt=wanted.attempt_id, job=wanted.launch.job_id, trace=trace):
            log.info("starting %s of %s", wanted.attempt_id, wanted.launch.job_name or wanted.launch.job_id)
            life = AttemptLife(folder, wanted.launch, Mask(wanted.launch.secrets), self._tools)
            self._lives[wanted.attempt_id] = life
            life.learn(wanted)
            life.begin()

    def stop(self, action: StopAttempt) -> None:
        life = self._lives.get(action.attempt_id)
        if life is not None:
            log.info("stopping %s, grace %s s", action.attempt_id, action.grace_seconds)
            life.stop(action.grace_seconds)
        else:
            stopped = STOPPED_BEFORE_START
            self._report_end(action.attempt_id, stopped.exit_code, stopped.reason, stopped.end)

    def forget(self, action: ForgetAttempt) -> None:
        self._tombstones.pop(action.attempt_id, None)
        life = self._lives.pop(action.attempt_id, None)
        if life is not None:
            log.info("forgetting %s", action.attempt_id)
            self._spawn(life.forget())
        self._tools.changed()

    async def let_go(self, stop: bool) -> None:
        """Lets all attempts run on for the next agent to adopt, or ends them where `stop` is set."""
        await asyncio.gather(*self._background, return_exceptions=True)
        for life in self._lives.values():
            await life.let_go(stop)

    def _report_end(self, attempt_id: str, exit_code: int, reason: str, end: EndReason) -> None:
        self._tombstones[attempt_id] = AttemptObserved(
            attempt_id,
            MemberPhase.EXITED,
            exit_code=exit_code,
            reason=reason,
            end=end,
            uplink_drained=True,
        )
        self._tools.changed()

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


async def _adopt(launcher: Launcher, folder: WorkFolder) -> Status:
    """The status of an attempt of an earlier agent. Neither an engine that does not answer nor files that a job has
    overwritten may keep the agent from starting."""
    try:
        return await asyncio.to_thread(launcher.adopt, folder)
    except Exception as error:
        cause = str(error) if isinstance(error, LauncherError) else f"{error!r}"[:300]
        log.warning("cannot tell yet how %s is: %s", folder.attempt_id, cause)
        return Alive(0) if folder.process_file.exists() else NotStarted()
