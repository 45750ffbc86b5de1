"""One run of a training script, on a node of the platform or alone on a laptop."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from platform_core.experiments.fields import MAX_EXPERIMENT_NAME, MAX_RUN_NAME
from platform_core.experiments.lineage import MAX_TEXT
from trainmaster import artifacts, feeds, lineage, plain_values
from trainmaster.checkpoints import collective, loading, random_state
from trainmaster.checkpoints.description import Description
from trainmaster.checkpoints.saving import Request, Saver, WhenBusy
from trainmaster.console import Console
from trainmaster.corruption import Compute, CorruptionCheck
from trainmaster.efficiency.measures import Measures
from trainmaster.environment import JobEnvironment
from trainmaster.guidance import Guidance
from trainmaster.logged_values import LoggedValues
from trainmaster.plain_values import step_of
from trainmaster.progress import LOADING, SAVING, Progress
from trainmaster.setting import Setting
from trainmaster.spool import Spool, divided, metrics_lines
from trainmaster.summary import Summary
from trainmaster.tracking import origin
from trainmaster.tracking.live import Tracking, outcome

# Characters of what the platform shall call a run.
LIMITS = {
    "name": MAX_RUN_NAME, "experiment": MAX_EXPERIMENT_NAME, "team": MAX_RUN_NAME, "group": MAX_RUN_NAME,
    "parent": MAX_RUN_NAME,
}  # fmt: skip


class Run:
    """What the functions of `trainmaster` speak to. Made once a process; safe from several threads for `log`.

    As a context manager it ends with the block, and fails with its exception.
    """

    def __init__(
        self,
        environment: JobEnvironment,
        setting: Setting,
        now_ms: Callable[[], int],
        tracking: Tracking | None = None,
    ) -> None:
        self.environment = environment
        self.setting = setting
        self.console = Console()
        self.summary = Summary(self.log)
        self.begun = self.finished = False
        self._now_ms = now_ms
        self._tracking = tracking
        self._spool = Spool(setting.spool)
        self._guidance = Guidance(environment, setting.stop_file, now_ms)
        self._progress = Progress(environment.folder, environment.rank, now_ms)
        self._saver = Saver(
            setting.checkpoints,
            setting.keep_last,
            now_ms,
            self._saved,
            self.console.warn,
            failed=self._not_saved,
        )
        self._values = LoggedValues(setting.home, now_ms(), self._tell, self.console.warn)
        self.measures = Measures(environment, self._tell, self._values.tell_rich, now_ms, self.console.warn)
        self._corruption = CorruptionCheck(environment, self._guidance, self._tell, self.console.warn)
        self._watches_stop = False
        self._milestones: set[str] = set()

    @property
    def id(self) -> str:
        """Of the run; under the platform the job's. Empty on ranks that keep nothing."""
        return self._tracking.identity.id if self._tracking is not None else self.environment.job

    @property
    def url(self) -> str:
        """Where the run can be watched; empty while no platform knows it."""
        return self._tracking.url if self._tracking is not None else ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish(*outcome(error))

    @property
    def is_first(self) -> bool:
        return self.environment.rank == 0

    def begin(
        self,
        total_steps: int | None,
        params: Mapping[str, Any] | None,
        seed: int | None,
        tags: Mapping[str, object] | None = None,
        **names: str,
    ) -> None:
        """`names`: what the platform shall call a run outside it: name, experiment, team, group, parent."""
        self.begun = True
        problems: list[str] = []
        total_steps = plain_values.whole_or_none(total_steps, "total_steps", problems)
        chosen = (
            plain_values.whole_or_none(seed, "seed", problems) if seed is not None else self.environment.seed
        )
        if chosen is not None:
            random_state.seed(chosen)
        self.console.expect(total_steps)
        self._progress.total_steps = total_steps
        if not self.is_first:
            return
        kept, left_out = plain_values.parameters(params)
        self._values.tell_left_out(problems + left_out)
        every = {**self.environment.hyperparameters, **kept}
        if self._tracking is not None:
            every = self._tracking.mask_values(every)
        first, *others = divided(every)
        description: dict[str, Any] = {
            "step_total": total_steps,
            "params": first,
            "packages": lineage.packages(),
            "hardware": lineage.hardware(),
            "seed": chosen,
        }
        if self._tracking is None:
            self._tell("init", **description)
        else:
            self._describe_origin(description, self._tracking)
        for part in others:
            self._tell("init", params=part)
        if tags:
            self.set_tags(tags)
        if self.setting.alone:
            self.console.say(f"trainmaster: this run is kept in {self.setting.home}")
        if self._tracking is not None:
            self._tracking.describe(
                **{kind: plain_values.short(name, LIMITS[kind]) for kind, name in names.items()}
            )
            self._tracking.start(self.console.say)

    def _describe_origin(self, description: dict[str, Any], tracking: Tracking) -> None:
        """Alone nobody else knows the code: its commit and command, and as a file what is in no commit."""
        facts = origin.facts(Path.cwd(), tracking.mask)
        self._tell("init", **description, lineage=facts)
        if (diff := facts.get("git_diff")) and self.setting.home is not None:
            try:
                kept = artifacts.keep_text(str(diff), "uncommitted.diff", self.setting.home)
            except OSError:
                return  # the disk is full, as the spool says
            self._tell("artifact", name=kept.name, path=kept.relative_to(self.setting.home).as_posix())

    def log(self, step: int, values: Any = None, **more: Any) -> None:
        """Only rank 0 reports metrics: all ranks usually log the same names, and one value is kept for each.

        Never raises for a name or a value: what cannot be kept is left out with a warning, and costs no other.
        """
        if values is not None:
            if not isinstance(values, Mapping):
                more["values"] = values
            else:
                more = self._values.joined(values, more)
        known = step_of(step)
        if known is None:
            known = self.summary.step
            self._values.tell_left_out(
                [f"a step is a whole number, not {type(step).__name__}; step {known} is used"]
            )
        self._progress.note(known)
        self.measures.step(known)
        if not self.is_first:
            return
        if self.finished:
            self._values.warn_once(
                "", "the run has ended, so nothing more is logged; trainmaster.init() begins another"
            )
            return
        numbers = self._values.numbers(known, more)
        if not numbers:
            return
        self._corruption.observe(known, numbers)
        if measures := feeds.measures():
            numbers |= measures
        now_ms = self._now_ms()
        for line in metrics_lines(known, now_ms, numbers):
            self._spool.append_line(line)
        self.summary.keep(known, numbers)
        self.console.metrics(known, numbers, now_ms)

    def set_tags(self, tags: Mapping[str, object]) -> None:
        """Name and value, both text; an empty value is a mere label."""
        if self.is_first:
            kept, problems = plain_values.tags(tags)
            self._values.tell_left_out(problems)
            for part in divided(kept):
                self._tell("tags", tags=part)

    def use_dataset(self, name: str) -> None:
        """Note in the lineage what the run was trained on, as TEAM/NAME or any other name."""
        if self.is_first:
            self._tell("lineage", lineage={"dataset": plain_values.short(name, MAX_TEXT)})

    def finish(self, state: str = "succeeded", error: str = "") -> None:
        """End the run, wait for the save in flight and send what waits. Called at exit where the script does not.

        The second time it does nothing. CheckpointNotSaved when that save failed, on every rank.
        """
        try:
            self._saver.wait()
        finally:
            self._end(state, error)

    def _end(self, state: str, error: str) -> None:
        if self.finished or not self.is_first or (self._tracking is not None and not self._tracking.is_ours):
            return
        self.finished = True
        if self._tracking is not None:
            self._tell("finish", state=state, error=error)
            self._tracking.close(self.console.say)

    def save_checkpoint(
        self,
        state: Mapping[str, Any],
        step: int,
        metrics: Mapping[str, Any],
        *,
        blocking: bool = False,
        when_busy: WhenBusy | None = None,
    ) -> Path | None:
        if not collective.active() and not self.is_first:
            return None
        self._progress.note(int(step), SAVING)
        if self.is_first:
            self._tell("checkpoint_started", step=int(step))
        numbers = self._values.only_numbers(metrics)
        when_busy = when_busy or self.environment.when_busy
        left = self._guidance.stop_deadline() if self._guidance.stopping else None
        request = Request(int(step), numbers, when_busy, blocking, self._guidance.stopping, left)
        with self.measures.meter.measuring("checkpoint"):
            saved = self._saver.save(feeds.with_states(state), request)
        self._guidance.saved()
        self._progress.note()
        return saved

    def _saved(self, path: Path, description: Description) -> None:
        """A part of a checkpoint is on this node's disk, and the others on theirs. Called by the writing thread."""
        if self.setting.home is None:
            return
        names = ("step", "nodes", "node_rank", "began_at_ms", "blocking_ms", "write_ms", "emergency")
        facts = {name: getattr(description, name) for name in names}
        place = path.relative_to(os.path.abspath(self.setting.home)).as_posix()
        self._tell("checkpoint", path=place, metrics=description.metrics, **facts)

    def _not_saved(self, step: int, why: str) -> None:
        self._tell("checkpoint_failed", step=step, why=why)

    def load_checkpoint(self, into: Mapping[str, Any] | None = None) -> tuple[dict[str, Any], int] | None:
        environment, alone = self.environment, self.setting.alone
        self._progress.note(doing=LOADING)
        if alone and environment.world_size > 1 and not collective.active():
            raise RuntimeError(
                f"There are {environment.world_size} ranks, but torch.distributed is not initialised: "
                "call torch.distributed.init_process_group() before load_checkpoint()."
            )
        self._saver.wait()
        work_folder = None if alone else self.setting.home
        source = loading.Source(self.setting.candidates, self.console.warn, alone, work_folder)
        loaded = loading.load(source, into)
        self._reach("loaded", loaded.step if loaded is not None else 0)
        if loaded is None:
            return None
        feeds.take_states(loaded.state)
        if self.is_first:
            self.console.say(f"trainmaster: resumed from step {loaded.step} ({loaded.path})")
            if not loaded.random_restored:
                self.console.warn(
                    "saved with another number of ranks, so the random states were not restored"
                )
        return loaded.state, loaded.step

    def checkpoint_due(self, step: int, every: int) -> bool:
        self._reach("first_step", int(step))
        self._progress.note(step)
        self.measures.step(int(step))
        return self._guidance.checkpoint_due(step, every)

    def check_corruption(self, step: int, compute: Compute, batch: Any, every: int) -> None:
        self._corruption.check(int(step), compute, batch, every)

    def should_stop(self) -> bool:
        self._progress.note()
        if self.is_first and not self._watches_stop:
            self._watches_stop = True
            self._tell("watches_stop")
        return self._guidance.should_stop()

    def stop_deadline(self) -> float | None:
        return self._guidance.stop_deadline()

    def log_artifact(self, path: str | Path) -> Path | None:
        if self.setting.home is None:
            return None
        kept = artifacts.keep(Path(path), self.setting.home)
        self._tell("artifact", name=kept.name, path=kept.relative_to(self.setting.home).as_posix())
        return kept

    def _reach(self, milestone: str, step: int) -> None:
        """Tell the platform once how far the attempt has come; from it follow the phases of a recovery."""
        if self.is_first and not self.setting.alone and milestone not in self._milestones:
            self._milestones.add(milestone)
            self._tell("milestone", name=milestone, step=step)

    def _tell(self, kind: str, at_ms: int | None = None, **facts: object) -> None:
        self._spool.append({"kind": kind, "at_ms": self._now_ms() if at_ms is None else at_ms, **facts})
