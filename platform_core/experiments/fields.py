"""The fields that people and programs give a run or an experiment: checked once, before they are kept."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from platform_core.errors import TrainmasterError
from platform_core.json_values import storable

MAX_EXPERIMENT_NAME = 500
MAX_RUN_NAME = 250
MAX_KEY = 250  # of a metric, a parameter or a tag
MAX_PARAMETER = 6_000
MAX_TAG = 8_000
MAX_DESCRIPTION = 100_000
MAX_PARAMETERS = 2_000  # of a run
MAX_TAGS = 500
MAX_METRICS = 10_000
MAX_SOURCE = 64  # characters of the name of a process that reports
SOURCES = frozenset({"job", "sdk", "mlflow", "tensorboard", "wandb", "api"})
_RUN_ID = re.compile(r"[0-9a-f]{32}")


def run_id(text: str) -> str:
    """An id that a client gives its new run. Raises request_invalid."""
    if not _RUN_ID.fullmatch(text):
        raise _invalid("run id", f"{text[:60]!r} does not have 32 digits of 0-9 and a-f")
    return text


def name(text: Any, kind: str, limit: int = MAX_RUN_NAME) -> str:
    """The name of an experiment, a run or a group, without blanks around it. Raises request_invalid."""
    if not isinstance(text, str) or not text.strip():
        raise _invalid(f"name of the {kind}", f"{text!r:.60} is not a text with at least one character")
    return _bounded(text.strip(), f"name of the {kind}", limit)


def text(value: Any, what: str, limit: int) -> str:
    if not isinstance(value, str):
        raise _invalid(what, f"{value!r:.60} is not text")
    return _bounded(value, what, limit)


def _bounded(value: str, what: str, limit: int) -> str:
    if len(value) > limit:
        raise _invalid(what, f"it has {len(value):,} characters; the limit is {limit:,}")
    return str(storable(value))


def source(value: str) -> str:
    if value not in SOURCES:
        raise _invalid("source", f"{value[:60]!r} is none of {', '.join(sorted(SOURCES))}")
    return value


def tags(given: Mapping[str, Any]) -> dict[str, str]:
    """Texts by name. Raises request_invalid."""
    return {_key(key, "tag"): text(value, f"tag {key:.60}", MAX_TAG) for key, value in given.items()}


def parameters(given: Mapping[str, Any]) -> dict[str, Any]:
    """Texts, numbers, true, false, null, and lists and objects of these, by name. Raises request_invalid."""
    return {_key(key, "parameter"): _parameter(key, value) for key, value in given.items()}


def _key(key: Any, kind: str) -> str:
    if not isinstance(key, str) or not key.strip():
        raise _invalid(f"name of a {kind}", f"{key!r:.60} is not a text with at least one character")
    return _bounded(key, f"name of a {kind}", MAX_KEY)


def _parameter(key: str, value: Any) -> Any:
    if isinstance(value, int) and abs(value) >= 1 << 63:
        raise _invalid(f"parameter {key:.60}", "it is a whole number beyond 64 bits; send it as text")
    if isinstance(value, str):
        return _bounded(value, f"parameter {key:.60}", MAX_PARAMETER)
    kept = storable(value)
    if len(repr(kept)) > MAX_PARAMETER:
        raise _invalid(f"parameter {key:.60}", f"it has more than {MAX_PARAMETER:,} characters")
    return kept


def within(kind: str, count: int, limit: int) -> None:
    """Raises too_large when a run would have more fields of a kind than it may."""
    if count > limit:
        raise TrainmasterError("too_large", what="the run", size=f"{count:,} {kind}", limit=f"{limit:,}")


def _invalid(what: str, why: str) -> TrainmasterError:
    return TrainmasterError("request_invalid", what=what, why=why)
