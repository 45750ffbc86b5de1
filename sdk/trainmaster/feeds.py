"""The loaders of this process, by name: how their states travel in checkpoints and their waits reach the metrics."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Mapping
from typing import Any, Protocol

from trainmaster.efficiency import hooks

KEY = "trainmaster.data"  # in the state of a checkpoint
WAIT, SET_ASIDE = "perf/data_wait_seconds", "data/set_aside"


class Feed(Protocol):
    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...


_feeds: weakref.WeakValueDictionary[str, Feed] = weakref.WeakValueDictionary()
_loaded: dict[str, Mapping[str, Any]] = {}  # of loaders that are not made yet
_waited, _batches, _set_aside = 0.0, 0, 0


def register(name: str, feed: Feed) -> None:
    """A state that was loaded before the loader was made reaches it here."""
    if name in _feeds and "ipykernel" not in sys.modules:
        raise ValueError(
            f"There is a loader named {name} already; give this one another with name=…, "
            "under which checkpoints keep its position."
        )
    if (state := _loaded.pop(name, None)) is not None:
        feed.load_state_dict(state)
    _feeds[name] = feed


def with_states(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """The state of a script with those of its loaders."""
    states = {name: feed.state_dict() for name, feed in sorted(_feeds.items())}
    return {**state, KEY: states} if states else state


def take_states(state: dict[str, Any]) -> None:
    """Give the loaders what a checkpoint kept of them, and leave the rest to the script."""
    for name, own in state.pop(KEY, {}).items():
        feed = _feeds.get(name)
        if feed is None:
            _loaded[name] = own
        else:
            feed.load_state_dict(own)


def waited(seconds: float, samples: int) -> None:
    global _waited, _batches
    _waited, _batches = _waited + seconds, _batches + 1
    hooks.loaded(seconds, samples)


def set_aside(count: int) -> None:
    global _set_aside
    _set_aside += count


def forget() -> None:
    """Begin as a new process does."""
    global _waited, _batches, _set_aside
    _feeds.clear()
    _loaded.clear()
    _waited, _batches, _set_aside = 0.0, 0, 0


def measures() -> dict[str, float]:
    """The mean wait for a batch since the last call, and what was set aside in all; {} without a batch."""
    global _waited, _batches
    if not _batches:
        return {}
    values = {WAIT: _waited / _batches}
    _waited, _batches = 0.0, 0
    if _set_aside:
        values[SET_ASIDE] = float(_set_aside)
    return values
