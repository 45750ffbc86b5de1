"""One run of a training script, on a node of the platform or alone on a laptop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainmaster import artifacts, laptop, lineage
from trainmaster.checkpoints import collective, folder, loading, random_state, saving
from trainmaster.console import Console
from trainmaster.environment import JobEnvironment
from trainmaster.spool import Spool
from trainmaster.stopping import Stopping

# Under the platform the agent deletes what it has uploaded. This is only for when the agent is away for long.
SPARE_CHECKPOINTS = 10


@dataclass(frozen=True, slots=True)
class Setting:
    """Where a run reads from and writes to. `home` is None on ranks that keep nothing."""

    home: Path | None
    checkpoints: Path | None
    candidates: tuple[Path, ...]
    spool: Path | None
    stop_file: Path | None
    keep_last: int
    alone: bool


def setting_of(environment: JobEnvironment, script: str, resume: str) -> Setting:
    """`resume` is for a laptop: under the platform the platform decides."""
    home = environment.folder
    if home is None:
        return _alone(environment, script, resume or environment.resume)
    checkpoints = home / environment.checkpoint_path
    # Checkpoints of this attempt are newer than the one that it resumed from.
    candidates = [*folder.newest_first(checkpoints)]
    if environment.resume:
        fetched = Path(environment.resume)
        candidates += (
            [fetched]
            if (fetched / folder.DESCRIPTION).exists()
            else folder.newest_first(fetched) or [fetched]
        )
    keep = environment.keep_last
    return Setting(
        home=home,
        checkpoints=checkpoints,
        candidates=tuple(candidates),
        spool=home / "spool" / f"rank-{environment.rank}.jsonl",
        stop_file=home / "stop",
        keep_last=keep + SPARE_CHECKPOINTS if keep else 0,
        alone=False,
    )


def _alone(environment: JobEnvironment, script: str, resume: str) -> Setting:
    keep = environment.keep_last
    if environment.rank != 0:  # rank 0 keeps the run, and the others ask it
        return Setting(None, None, (), None, None, keep, alone=True)
    place = laptop.choose(Path(laptop.RUNS), script, resume)
    spool = place.folder / "events.jsonl"
    return Setting(place.folder, place.checkpoints, place.candidates, spool, None, keep, alone=True)


class Run:
    """What the functions of `trainmaster` speak to. Made once a process; safe from several threads for `log`."""

    def __init__(self, environment: JobEnvironment, setting: Setting, now_ms: Callable[[], int]) -> None:
        self.environment = environment
        self.setting = setting
        self.console = Console()
        self._now_ms = now_ms
        self._spool = Spool(setting.spool)
        self._stopping = Stopping(setting.stop_file)
        self._saved_at_ms = now_ms()
        self._refused: set[str] = set()
        self._watches_stop = False

    @property
    def is_first(self) -> bool:
        return self.environment.rank == 0

    def begin(self, total_steps: int | None, params: Mapping[str, Any] | None, seed: int | None) -> None:
        chosen = seed if seed is not None else self.environment.seed
        if chosen is not None:
            random_state.seed(chosen)
        self.console.expect(total_steps)
        if not self.is_first:
            return
        self._tell(
            "init",
            step_total=total_steps,
            params={**self.environment.hyperparameters, **(params or {})},
            packages=lineage.packages(),
            hardware=lineage.hardware(),
            seed=chosen,
        )
        if self.setting.alone:
            self.console.say(f"trainmaster: this run is kept in {self.setting.home}")

    def log(self, step: int, values: Mapping[str, Any]) -> None:
        """Only rank 0 reports metrics: all ranks usually log the same names, and one value is kept for each."""
        if not self.is_first:
            return
        numbers = {
            name: number
            for name, value in values.items()
            if (number := self._number(name, value)) is not None
        }
        if not numbers:
            return
        now_ms = self._now_ms()
        self._tell("metrics", now_ms, step=int(step), values=numbers)
        self.console.metrics(int(step), numbers, now_ms)

    def save_checkpoint(self, state: Mapping[str, Any], step: int, metrics: Mapping[str, Any]) -> Path | None:
        if not collective.active() and not self.is_first:
            return None
        if self.is_first:
            self._tell("checkpoint_started", step=int(step))
        numbers = {
            name: number
            for name, value in metrics.items()
            if (number := self._number(name, value)) is not None
        }
        description = folder.Description(int(step), numbers, collective.world_size(), self._now_ms())
        saved = saving.save(state, description, self.setting.checkpoints, self.setting.keep_last)
        self._saved_at_ms = self._now_ms()
        if saved is not None and self.setting.home is not None:
            path = saved.relative_to(self.setting.home).as_posix()
            self._tell("checkpoint", step=int(step), path=path, metrics=numbers)
        return saved

    def load_checkpoint(self) -> tuple[dict[str, Any], int] | None:
        environment, alone = self.environment, self.setting.alone
        if alone and environment.world_size > 1 and not collective.active():
            raise RuntimeError(
                f"There are {environment.world_size} ranks, but torch.distributed is not initialised: "
                "call torch.distributed.init_process_group() before load_checkpoint()."
            )
        loaded = loading.load(self.setting.candidates, self.console.warn, go_back=alone)
        if loaded is None:
            return None
        if self.is_first:
            self.console.say(f"trainmaster: resumed from step {loaded.step} ({loaded.path})")
            if not loaded.random_restored:
                self.console.warn(
                    "saved with another number of ranks, so the random states were not restored"
                )
        return loaded.state, loaded.step

    def checkpoint_due(self, step: int, every: int) -> bool:
        """By the job's checkpoint policy, or by `every` where it has none."""
        policy = self.environment
        steps = policy.interval_steps or (0 if policy.interval_seconds else every)
        if steps and step > 0 and step % steps == 0:
            return True
        if not policy.interval_seconds:
            return False
        # Clocks differ between nodes: rank 0's decides.
        return collective.from_first(self._now_ms() - self._saved_at_ms >= policy.interval_seconds * 1000)

    def should_stop(self) -> bool:
        if self.is_first and not self._watches_stop:
            self._watches_stop = True
            self._tell("watches_stop")
        return collective.any_true(self._stopping.asked())

    def log_artifact(self, path: Path) -> Path | None:
        if self.setting.home is None:
            return None
        kept = artifacts.keep(path, self.setting.home)
        self._tell("artifact", name=kept.name, path=kept.relative_to(self.setting.home).as_posix())
        return kept

    def _tell(self, kind: str, at_ms: int | None = None, **facts: object) -> None:
        self._spool.append({"kind": kind, "at_ms": self._now_ms() if at_ms is None else at_ms, **facts})

    def _number(self, name: str, value: Any) -> float | None:
        """Tensors and numpy scalars too. What is no number costs a warning, not the training."""
        if isinstance(value, int):
            return int(value)
        detach = getattr(value, "detach", None)
        try:
            return float(detach() if callable(detach) else value)
        except (TypeError, ValueError, RuntimeError):
            if name not in self._refused:
                self._refused.add(name)
                self.console.warn(f"{name} is {type(value).__name__}, not one number; it is not logged")
            return None
