"""A rule matters if a situation, which holds with it, does not hold without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

Situation: TypeAlias = Callable[[], None]
# Where it is, its name there, what stands in for it, and the situation that it matters to.
Rule: TypeAlias = tuple[Any, str, Any, Situation]


def assert_noticed(rule: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, without, situation = rule
    situation()
    monkeypatch.setattr(owner, name, without)
    with pytest.raises((AssertionError, ValueError)):
        situation()
