"""The training script of one attempt: its progress, its saves and its reaction to a stop request."""

from __future__ import annotations

from dataclasses import dataclass

from platform_core.simulation.workload import TraceJob


@dataclass(slots=True)
class Script:
    """Work is measured in time on all GPUs of the fastest place; with fewer GPUs or longer steps it is slower."""

    job: TraceJob
    held: int
    done_ms: int  # when it last began, saved or stopped
    kept_from_ms: int  # if it ended now, the time on its GPUs since then would be lost
    saved_ms: int  # work in the newest checkpoint
    resume_ms: int  # after it has begun, before its work goes on
    step_us: tuple[int, int] = (1, 1)  # of one step where it runs, and on its fastest place
    works_from_ms: int | None = None  # None: it has not begun, saves, stops, or hangs
    saves_until_ms: int | None = None
    has_begun: bool = False
    hangs: bool = False  # a rank is gone: the others wait for it, and cannot save
    saves_last: bool = False  # told to stop, it leaves with a checkpoint

    def begin(self, now_ms: int) -> None:
        self.has_begun = True
        self.works_from_ms = now_ms + self.resume_ms

    def work_at(self, now_ms: int) -> int:
        if self.works_from_ms is None:
            return self.done_ms
        here_us, fastest_us = self.step_us
        worked_ms = max(0, now_ms - self.works_from_ms)
        return self.done_ms + worked_ms * self.held * fastest_us // (self.job.gpus * here_us)

    @property
    def next_ms(self) -> int:
        """When it next saves or ends; None while it does not work."""
        assert self.works_from_ms is not None
        ends_ms, every_ms = self._ends_without_saving_ms(), self.job.saving.every_ms
        return min(ends_ms, self.works_from_ms + every_ms) if every_ms else ends_ms

    @property
    def end_ms(self) -> int | None:
        """When it ends if nothing happens, saves included; None while it does not work."""
        if self.works_from_ms is None:
            return None
        ends_ms, saving = self._ends_without_saving_ms(), self.job.saving
        saves = (ends_ms - self.works_from_ms - 1) // saving.every_ms if saving.every_ms else 0
        return ends_ms + max(0, saves) * saving.takes_ms

    def is_done(self, now_ms: int) -> bool:
        return self.works_from_ms is not None and now_ms >= self._ends_without_saving_ms()

    def begin_save(self, now_ms: int) -> None:
        self._stand_still(now_ms)
        self.saves_until_ms = now_ms + self.job.saving.takes_ms

    def end_save(self, now_ms: int) -> None:
        self._keep(now_ms)
        self.works_from_ms = now_ms

    def hang(self, now_ms: int) -> None:
        self._stand_still(now_ms)
        self.hangs, self.saves_last = True, False

    def told_to_stop(self, now_ms: int, grace_ms: int) -> int:
        """When it has stopped: after its last save if it makes one, at the latest at the end of the grace period."""
        saving, saves_until_ms = self.job.saving, self.saves_until_ms
        self._stand_still(now_ms)
        if self.hangs:
            return now_ms + grace_ms
        if saves_until_ms is None:
            if not self.has_begun or self.done_ms == self.saved_ms:
                self.kept_from_ms = now_ms  # nothing new
                return now_ms
            if not saving.when_stopped:
                return now_ms
            saves_until_ms = now_ms + saving.takes_ms
        self.saves_last = saves_until_ms <= now_ms + grace_ms
        return min(saves_until_ms, now_ms + grace_ms)

    def save_last(self, now_ms: int) -> None:
        self._keep(now_ms)

    def _stand_still(self, now_ms: int) -> None:
        self.done_ms = self.work_at(now_ms)
        self.works_from_ms = self.saves_until_ms = None

    def _keep(self, now_ms: int) -> None:
        self.saved_ms, self.kept_from_ms, self.saves_until_ms = self.done_ms, now_ms, None

    def _ends_without_saving_ms(self) -> int:
        assert self.works_from_ms is not None
        here_us, fastest_us = self.step_us
        left_ms = (self.job.duration_ms - self.done_ms) * self.job.gpus * here_us
        return self.works_from_ms - (-left_ms // (self.held * fastest_us))
