"""The journey that `trainmaster demo` takes through the product, on its real parts."""

from collections.abc import Callable


class JourneyFailedError(Exception):
    """Which step did not come to its end, and what was seen instead."""


def travel(url: str, say: Callable[[str], None]) -> None:
    """Submit, watch, compare, deploy; `say` gets a sentence for each step that succeeded."""
