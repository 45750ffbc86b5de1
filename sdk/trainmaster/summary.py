"""The newest values of the metrics of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


class Summary(dict[str, float]):
    """The newest value of each metric that this process logged. A value that is set is logged at the newest step."""

    def __init__(self, log: Callable[[int, Mapping[str, Any]], None]) -> None:
        super().__init__()
        self.step = 0
        self._log = log

    def __setitem__(self, name: str, value: Any) -> None:
        self._log(self.step, {name: value})

    def keep(self, step: int, values: Mapping[str, float]) -> None:
        self.step = step
        super().update(values)
