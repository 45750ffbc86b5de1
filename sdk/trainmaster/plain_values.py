"""What scripts give as parameters, tags and metrics, whatever its type, as values that the platform keeps.

Nothing here raises for a value, also where its own `__str__`, `__float__` or `items` does: the sentences say what could
not be kept, and the rest is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from platform_core.experiments import fields
from platform_core.json_values import storable

MOST_DEPTH = 12  # of a parameter; what is nested deeper is told as text
MOST_ITEMS = 2_000  # of a parameter that is no text: more is told as text
LARGEST = 1 << 63


def step_of(step: Any) -> int | None:
    """A whole number that the platform keeps, else None."""
    try:
        whole = int(step)
    except Exception:
        return None
    return whole if -LARGEST <= whole < LARGEST else None


def whole_or_none(value: Any, what: str, problems: list[str]) -> int | None:
    whole = None if value is None else step_of(value)
    if value is not None and whole is None:
        problems.append(f"{what} is {type(value).__name__}, not a whole number of 64 bits; it is not used")
    return whole


def count_of(value: Any) -> float | None:
    """A finite number, else None."""
    try:
        number = float(value)
    except Exception:
        return None
    return number if math.isfinite(number) else None


def number(value: Any) -> float:
    """Of a number, a tensor or an array of one element. Raises ValueError with a sentence."""
    try:
        detach, item = getattr(value, "detach", None), getattr(value, "item", None)
        if callable(item):
            value = (detach() if callable(detach) else value).item()
        return float(value)
    except OverflowError:
        raise ValueError("is a number beyond any fraction") from None
    except Exception:
        raise ValueError(f"is {type(value).__name__}, not one number") from None


def numbers(given: Any) -> tuple[dict[str, float], list[str]]:
    """The metrics of one step, without those that are no numbers."""
    found: dict[Any, Any] = {}
    problems: list[str] = []
    for name, value in entries(given, "metrics", problems):
        try:
            found[name] = number(value)
        except ValueError as error:
            problems.append(f"{name:.60} {error}; it is not logged")
    kept, left_out = fields.sorted_out("metric", found)
    return kept, problems + left_out


def parameters(given: Any) -> tuple[dict[str, Any], list[str]]:
    return _fields(given, "parameter", "params", plain, fields.MAX_PARAMETER, fields.MAX_PARAMETERS)


def tags(given: Any) -> tuple[dict[str, str], list[str]]:
    return _fields(given, "tag", "tags", str, fields.MAX_TAG, fields.MAX_TAGS)


def _fields(
    given: Any, kind: fields.Kind, what: str, read: Callable[[Any], Any], longest: int, most: int
) -> tuple[dict[str, Any], list[str]]:
    """The entries that can be kept, and a sentence for each that is left out or cut."""
    problems: list[str] = []
    found: dict[Any, Any] = {}
    for name, value in entries(given, what, problems):
        try:
            found[name] = fitting(name, read(value), longest, problems)
        except Exception as error:
            problems.append(
                f"{kind} {name!r:.60} is left out: {type(value).__name__} raises {type(error).__name__}"
            )
    kept, left_out = fields.sorted_out(kind, found, most)
    return kept, problems + left_out


def short(text: Any, limit: int) -> str:
    """A name that a script gives, without NUL and broken Unicode, and cut. "" for what has no text."""
    try:
        return str(storable(str(text))).strip()[:limit]
    except Exception:
        return ""


def entries(given: Any, what: str, problems: list[str]) -> Iterable[tuple[Any, Any]]:
    """Names, as texts, and values of a mapping or of an object such as argparse.Namespace."""
    if given is None:
        return
    try:
        pairs = list(given.items()) if hasattr(given, "items") else list(vars(given).items())
    except Exception:
        problems.append(f"{what} is {type(given).__name__}, not values by name; nothing of it is kept")
        return
    for name, value in pairs:
        try:
            yield name if isinstance(name, str) else str(name), value
        except Exception:
            problems.append(
                f"an entry of {what} is left out: its name, {type(name).__name__}, cannot be written"
            )


def fitting(name: str, value: Any, limit: int, problems: list[str]) -> Any:
    """The value, or the beginning of its text where it is too long."""
    if not isinstance(value, str):
        if len(repr(value)) <= limit:
            return value
        value = str(value)
    if len(value) <= limit:
        return value
    problems.append(f"{name!r:.60} has {len(value):,} characters; the first {limit - 1:,} are kept")
    return f"{value[: limit - 1]}…"


def plain(value: Any, depth: int = 0) -> Any:
    """As JSON has it: what is not finite by its name, whole numbers beyond 64 bits and anything else as text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(storable(str(value)))
    if isinstance(value, int):
        return int(value) if -LARGEST < value < LARGEST else _whole(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, Mapping):
        return _nested(
            value, depth, lambda: {str(key): plain(inner, depth + 1) for key, inner in value.items()}
        )
    if isinstance(value, list | tuple):
        return _nested(value, depth, lambda: [plain(inner, depth + 1) for inner in value])
    item, elements = getattr(value, "item", None), getattr(value, "tolist", None)
    if callable(item) and callable(elements):  # of numpy and torch
        count = math.prod(getattr(value, "shape", ()))
        if count <= MOST_ITEMS:
            return _of_array(elements(), depth)
    return str(storable(str(value)))


def _of_array(value: Any, depth: int) -> Any:
    """What `tolist` gave: numbers, or things that numpy does not know, such as texts and dates."""
    return plain(value, depth) if isinstance(value, list | str | int | float) else str(storable(str(value)))


def _nested(value: Any, depth: int, inner: Any) -> Any:
    return inner() if depth < MOST_DEPTH and len(value) <= MOST_ITEMS else str(storable(str(value)))


def _whole(value: int) -> str:
    try:
        return str(int(value))
    except ValueError:  # Python writes no more digits than a few thousand
        return hex(value)
