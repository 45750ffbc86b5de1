"""The progress of this rank as a file in the attempt's work folder, for whoever watches that no rank hangs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

EVERY_MS = 1_000
STEP, SAVING, LOADING, DONE = "step", "saving", "loading", "done"


class Progress:
    """Writes `progress/<rank>`, `{"step", "at_ms", "doing", "made"}`, at most once a second unless its doing changes
    (all steps count as `made`)."""

    def __init__(self, folder: Path | None, rank: int, now_ms: Callable[[], int]) -> None:
        """`folder`: None for a run that nobody watches."""
        self._file = folder / "progress" / str(rank) if folder is not None else None
        self._now_ms = now_ms
        self._written_ms, self._doing = 0, ""
        self._step = self._made = 0
        self.total_steps: int | None = None

    def note(self, step: int | None = None, doing: str = STEP) -> None:
        """A sign of life. Never raises: the disk may be full."""
        if self._file is None:
            return
        if step is not None and (step > self._step or not self._made):
            self._step, self._made = max(self._step, step), self._made + 1
        if (
            doing == STEP and self.total_steps and self._step >= self.total_steps - 1
        ):  # counted from 0 or from 1
            doing = DONE
        now_ms = self._now_ms()
        if doing == self._doing and now_ms - self._written_ms < EVERY_MS:
            return
        self._written_ms, self._doing = now_ms, doing
        document = json.dumps({"step": self._step, "at_ms": now_ms, "doing": doing, "made": self._made})
        temporary = self._file.with_suffix(".new")
        try:
            self._file.parent.mkdir(exist_ok=True)
            temporary.write_text(document)
            os.replace(temporary, self._file)
        except OSError:
            self._file = None
