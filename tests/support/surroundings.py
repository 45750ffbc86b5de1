"""The environment of those who do not test with our databases."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

OURS = ("DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE")


@contextmanager
def of_a_stranger() -> Iterator[None]:
    """A platform started inside makes its own databases, whatever `databases.provide()` has put in place."""
    hidden = forget()
    try:
        yield
    finally:
        os.environ |= hidden


def forget() -> dict[str, str]:
    """What was forgotten."""
    return {name: os.environ.pop(name) for name in list(os.environ) if name in OURS or _is_a_setting(name)}


def _is_a_setting(name: str) -> bool:
    return name.startswith("TRAINMASTER_")
