"""When to save and to stop: by the script's rule, the job's policy and the platform's orders, on all ranks alike."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from pathlib import Path

from trainmaster.agreement import Agreement, Question
from trainmaster.checkpoints import collective
from trainmaster.environment import JobEnvironment
from trainmaster.orders import OrdersFile
from trainmaster.stopping import Stopping


class Guidance:
    """Alone the rank looks at the disk itself, at most 20 times a second; with other ranks an Agreement does."""

    def __init__(
        self, environment: JobEnvironment, stop_file: Path | None, now_ms: Callable[[], int]
    ) -> None:
        self._environment, self._now_ms = environment, now_ms
        self._orders = OrdersFile(environment.folder)
        self._stopping = Stopping(stop_file, self._orders)
        self._saved_at_ms = now_ms()
        self._saves_done = 0
        self._stop = Question(self._stopping.asked, lambda reason: None, lasting=True)
        self._due = Question(self._save_reason, self._granted)
        # Ranks read the orders at different moments, and must leave the rule of the script at one step.
        self._interval_set = Question(self._platform_interval, lambda reason: None, lasting=True)
        self._check_wanted = False
        self._check = Question(lambda: int(self._check_wanted), self._check_granted)
        self._agreement: Agreement | None = None
        self.stopping = False  # as the script was told

    def should_stop(self) -> bool:
        self._stopping.listen()
        if self._with_others():
            self.stopping = self._stop.ask()
        elif self._stopping.asked():
            self.stopping = True
        return self.stopping

    def checkpoint_due(self, step: int, every: int) -> bool:
        """By the job's policy; where it has none, by the interval of the platform, and by `every` until there is one.

        And by an order to save now.
        """
        policy = self._environment
        with_others = self._with_others()
        by_time = self._interval_set.ask() if with_others else bool(self._platform_interval())
        steps = policy.interval_steps or (0 if policy.interval_seconds or by_time else every)
        by_step = bool(steps) and step > 0 and step % steps == 0
        if with_others:
            ordered = self._due.ask()
        elif reason := self._save_reason():
            ordered = True
            self._granted(reason)
        else:
            ordered = False
        if ordered:
            self.saved()
        return by_step or ordered

    def stop_deadline(self) -> float | None:
        stop = self._orders.read().stop
        return max(0.0, (stop.deadline_ms - self._now_ms()) / 1000) if stop is not None else None

    def stop_ordered(self) -> bool:
        """As this rank alone knows it."""
        return self._stopping.asked()

    def ask_for_check(self) -> None:
        """All ranks are to compare what they compute, at their next `check_asked`."""
        self._check_wanted = True

    def check_asked(self) -> bool:
        """All ranks call it at the same step and get the same answer."""
        return self._with_others() and self._check.ask()

    def saved(self) -> None:
        """The interval begins anew."""
        self._saved_at_ms = self._now_ms()

    def _save_reason(self) -> int:
        """1 when the interval has passed, 1 + n for the order with the number n, which reaches nodes one by one."""
        orders = self._orders.read()
        if orders.save > self._saves_done:
            return 1 + orders.save
        seconds = orders.checkpoint_interval_ms / 1000 or self._environment.interval_seconds
        first = self._environment.rank == 0  # the clocks of nodes differ
        return int(bool(seconds) and first and self._now_ms() - self._saved_at_ms >= seconds * 1000)

    def _platform_interval(self) -> int:
        return int(self._orders.read().checkpoint_interval_ms > 0)

    def _granted(self, reason: int) -> None:
        self._saves_done = max(self._saves_done, reason - 1)

    def _check_granted(self, reason: int) -> None:
        self._check_wanted = False

    def _with_others(self) -> bool:
        """A collective at the first call with other ranks."""
        if self._agreement is None and collective.active():
            self._agreement = Agreement(
                collective.channel("orders"), [self._stop, self._due, self._interval_set, self._check]
            )
            self._agreement.start()
            atexit.register(self._agreement.leave)
        return self._agreement is not None
