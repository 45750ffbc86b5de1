"""The fields that people and programs give a run or an experiment: checked once, before they are kept."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from platform_core.errors import TrainmasterError
from platform_core.json_values import MAX_DEPTH, storable

Kind = Literal["metric", "parameter", "tag"]

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
    return {key(name, "tag"): _tag(name, value) for name, value in given.items()}


def parameters(given: Mapping[str, Any]) -> dict[str, Any]:
    """Texts, numbers, true, false, null, and lists and objects of these, by name. Raises request_invalid."""
    return {key(name, "parameter"): _parameter(name, value) for name, value in given.items()}


def sorted_out(
    kind: Kind, given: Mapping[Any, Any], limit: int = 1 << 63
) -> tuple[dict[str, Any], list[str]]:
    """What can be kept of metrics, parameters or tags, and a sentence for each entry that cannot.

    An entry costs no neighbour. Of two whose names are kept alike the one that needs no change stays.
    """
    kept: dict[str, Any] = {}
    problems: list[str] = []
    for given_name, value in sorted(given.items(), key=lambda entry: not is_kept_as_it_is(entry[0])):
        try:
            name = key(given_name, kind)
            checked = _CHECKS[kind](name, value)
        except TrainmasterError as error:
            problems.append(str(error))
            continue
        if name in kept:
            problems.append(
                f"{kind} {given_name!r:.60} is left out: its name is kept as {name!r:.60}, like another"
            )
        elif len(kept) >= limit:
            problems.append(f"{kind} {name:.60} is left out: {limit:,} are kept")
        else:
            kept[name] = checked
    return kept, problems


def is_kept_as_it_is(name: Any) -> bool:
    """Whether `key` takes a name without a change, as it does nearly all."""
    return type(name) is str and 0 < len(name) <= MAX_KEY and name.isprintable() and not name.isspace()


def key(name: Any, kind: str) -> str:
    """The name of a metric, a parameter, a tag or a value, as it is kept: with marks in place of NUL and broken
    Unicode. Raises request_invalid for one that is empty, blank or too long."""
    if not isinstance(name, str) or not name.strip():
        raise _invalid(f"name of a {kind}", f"{name!r:.60} is not a text with at least one character")
    if len(name) > MAX_KEY:
        why = f"{name[:60]!r}… has {len(name):,} characters; the limit is {MAX_KEY}"
        raise _invalid(f"name of a {kind}", why)
    return str(storable(name))


def _metric(name: str, value: Any) -> float:
    """Also NaN and the infinities: they show that a run diverged."""
    if not isinstance(value, int | float):
        raise _invalid(f"metric {name:.60}", f"it is {type(value).__name__}, not a number")
    try:
        return float(value)
    except OverflowError:
        why = f"it is a whole number of {value.bit_length():,} bits, beyond any fraction"  # type: ignore[union-attr]
        raise _invalid(f"metric {name:.60}", why) from None


def _tag(name: str, value: Any) -> str:
    return text(value, f"tag {name:.60}", MAX_TAG)


def _parameter(name: str, value: Any) -> Any:
    if isinstance(value, str):
        return _bounded(value, f"parameter {name:.60}", MAX_PARAMETER)
    if _has_huge_number(value):
        raise _invalid(f"parameter {name:.60}", "it is a whole number beyond 64 bits; send it as text")
    kept = storable(value)
    if len(repr(kept)) > MAX_PARAMETER:
        raise _invalid(f"parameter {name:.60}", f"it has more than {MAX_PARAMETER:,} characters")
    return kept


def _has_huge_number(value: Any, depth: int = 0) -> bool:
    """Also inside of lists and objects. What is nested deeper than `storable` takes is left to it to refuse."""
    if isinstance(value, int):
        return abs(value) >= 1 << 63
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return depth <= MAX_DEPTH and any(_has_huge_number(part, depth + 1) for part in inner)


_CHECKS = {"metric": _metric, "parameter": _parameter, "tag": _tag}


def within(kind: str, count: int, limit: int) -> None:
    """Raises too_large when a run would have more fields of a kind than it may."""
    if count > limit:
        raise TrainmasterError("too_large", what="the run", size=f"{count:,} {kind}", limit=f"{limit:,}")


def _invalid(what: str, why: str) -> TrainmasterError:
    return TrainmasterError("request_invalid", what=what, why=why)
