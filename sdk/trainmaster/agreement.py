"""Questions that all ranks ask in step, such as `should_stop()`, answered alike without a collective in each of them.

A thread of each rank looks at what its rank wants, 20 times a second, and reduces that over the ranks on a gloo group
of its own. When a rank wants something, the threads hold their ranks at the next question, agree on the largest number
of questions that a rank has asked, and answer the one after it with True. No rank has passed that one, and none waits
for the training of another.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from trainmaster.checkpoints.collective import Channel
from trainmaster.orders import LOOK_SECONDS

PATIENCE_SECONDS = 10.0  # a rank that holds its interpreter for longer, or hangs, is not waited for


class Question:
    """One function that all ranks call equally often. `ask` costs a fraction of a microsecond while nobody wants it."""

    def __init__(
        self, wanted: Callable[[], int], granted: Callable[[int], None], *, lasting: bool = False
    ) -> None:
        """The thread calls both: `wanted` gives 0 or a reason, `granted` gets the largest of all ranks.

        `lasting`: once True, always True.
        """
        self.wanted, self.granted = wanted, granted
        self._lasting = lasting
        self._asked = 0
        self._limit: float = math.inf  # the first question that needs a look at what was agreed
        self._held: float = math.inf  # the first that must wait for the agreement under way
        self._true_at: deque[int] = deque()
        self._changed = threading.Condition()

    @property
    def pending(self) -> bool:
        """Whether a True was agreed on that this rank has not come to."""
        return bool(self._true_at)

    def ask(self) -> bool:
        self._asked += 1
        return self._asked >= self._limit and self._look()

    def _look(self) -> bool:
        with self._changed:
            while self._asked >= self._held:
                self._changed.wait()
            if not self._true_at or self._asked < self._true_at[0]:
                return False
            if not self._lasting:
                self._true_at.popleft()
                self._limit = self._true_at[0] if self._true_at else math.inf
            return True

    def hold(self) -> int:
        """How many questions were asked. The next one waits for `answer` or `release`."""
        self._limit = 0
        with self._changed:
            self._held = self._asked + 1
            return max(self._asked, self._true_at[-1] if self._true_at else 0)

    def answer(self, number: int) -> None:
        """The question with this number is answered with True."""
        with self._changed:
            self._true_at.append(number)
            self._let_go()

    def release(self) -> None:
        with self._changed:
            self._let_go()

    def _let_go(self) -> None:
        self._held = math.inf
        self._limit = self._true_at[0] if self._true_at else math.inf
        self._changed.notify_all()


class Agreement(threading.Thread):
    """The thread of one rank. When another rank leaves or is gone there is nothing left to agree on, and it ends."""

    def __init__(self, channel: Channel, questions: Sequence[Question]) -> None:
        super().__init__(name="trainmaster-orders", daemon=True)
        self._channel, self._questions = channel, questions
        self._leaving = False

    def run(self) -> None:
        leaving = 0
        with contextlib.suppress(Exception):  # another rank is gone
            while not leaving:
                time.sleep(LOOK_SECONDS)
                wants = [0 if q.pending else q.wanted() for q in self._questions]
                *wanted, leaving = self._channel.maximum([*wants, int(self._leaving)])
                if any(wanted):
                    self._decide(wanted)
        for question in self._questions:
            question.release()

    def leave(self) -> None:
        """Ends the threads of all ranks, before the interpreter is taken apart: one that comes back from a collective
        after that aborts its process."""
        self._leaving = True
        self.join(PATIENCE_SECONDS)

    def _decide(self, wanted: Sequence[int]) -> None:
        counts = [q.hold() if reason else 0 for q, reason in zip(self._questions, wanted, strict=True)]
        agreed = self._channel.maximum(counts)
        for question, reason, count in zip(self._questions, wanted, agreed, strict=True):
            if reason:
                question.granted(reason)
                question.answer(count + 1)
