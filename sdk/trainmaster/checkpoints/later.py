"""Copies a state beside the loop: from the save until the next `optimizer.step()`, which waits for the rest.

In between a usual loop only reads what it saves. PyTorch counts the changes of a tensor in place, so one that came in
between is found, and the save fails rather than keep a mixture. Changes through `.data` are not counted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

_pending: LaterCopy | None = None
_hooked = False


class LaterCopy(threading.Thread):
    """Copies at the usual priority: the loop may wait for it."""

    def __init__(self, sources: Sequence[Any], fill: Callable[[], object]) -> None:
        super().__init__(name="trainmaster-copy", daemon=True)
        self._sources, self._fill = sources, fill
        self._versions = [source._version for source in sources]
        self._trouble: Exception | None = None

    def start(self) -> None:
        global _pending
        _hook()
        _pending = self
        super().start()

    def run(self) -> None:
        import torch

        try:
            with torch.no_grad():
                self._fill()
            if [source._version for source in self._sources] != self._versions:
                raise RuntimeError(
                    "the state was changed before its copy was complete, by something else than optimizer.step(); "
                    'use copy="now"'
                )
        except Exception as error:
            self._trouble = error

    def finish(self) -> None:
        """Waits for it. Raises why the copy is none."""
        self.join()
        if self._trouble is not None:
            raise self._trouble


def wait() -> None:
    """Until the state may be changed."""
    global _pending
    pending, _pending = _pending, None
    if pending is not None:
        pending.join()


def _hook() -> None:
    global _hooked
    if not _hooked:
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        register_optimizer_step_pre_hook(lambda optimizer, args, kwargs: wait())
        _hooked = True
