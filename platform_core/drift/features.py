"""What a request to an endpoint and its answer say as features: numbers, short texts and embeddings, by name."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

MOST_FEATURES = 64  # of one request
LONGEST_TEXT = 64  # a longer one is kept as its length
MOST_PLACES = 16  # of a list of numbers that are features of their own; a longer one is an embedding
LARGEST_EMBEDDING = 256  # a longer one is kept as its mean and deviation

Feature = float | str | list[float]


def features_of(request: bytes, answer: bytes, redacted: Collection[str] = ()) -> dict[str, Feature]:
    """Of the first row of a request and what was answered to it; {} where they are not JSON, or of no known shape.

    A feature is left out where a part of its name is `redacted`: "age" leaves out `input.age` and `input.age[0]`.
    """
    asked, given = _parsed(request), _parsed(answer)
    if not isinstance(asked, dict) or not isinstance(given, dict):
        return {}
    found: dict[str, Feature] = {}
    for name, value in (
        *_named("input", _first(asked, "inputs", "prompt")),
        *_named("output", _first(given, "outputs", "choices")),
    ):
        if len(found) < MOST_FEATURES and not _is_named(name, redacted):
            found[name] = value
    return found


def slices_of(features: Mapping[str, Any], names: Collection[str]) -> tuple[str, ...]:
    """ "input.language = de" of each feature that has one of the names as a part, of texts and whole numbers."""
    return tuple(
        f"{name} = {value if isinstance(value, str) else int(value)}"
        for name, value in features.items()
        if (isinstance(value, str) or (isinstance(value, int | float) and float(value).is_integer()))
        and _is_named(name, names)
    )


def largest_slices(slices: Iterable[tuple[str, ...]], most: int) -> frozenset[str]:
    """Those with the most rows: a name that turns out to be an id makes no thousand tests."""
    counts = Counter(name for row in slices for name in row)
    return frozenset(sorted(counts, key=lambda name: (-counts[name], name))[:most])


def _is_named(feature: str, names: Collection[str]) -> bool:
    return any(part in names for part in feature.replace("[", ".").replace("]", "").split("."))


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):  # also what is no UTF-8
        return None


def _first(document: dict[str, Any], *names: str) -> Any:
    """The first row of plain JSON, of a tensor of KServe v2, or of a completion."""
    value = next((document[name] for name in names if name in document), None)
    if isinstance(value, str):
        return value
    row = value[0] if isinstance(value, list) and value else None
    if isinstance(row, dict) and isinstance(row.get("shape"), list) and isinstance(row.get("data"), list):
        size = math.prod(part for part in row["shape"][1:] if isinstance(part, int))
        return row["data"][:size] if size > 1 else next(iter(row["data"]), None)
    if isinstance(row, dict) and isinstance(row.get("text"), str) and "index" in row:
        return row["text"]
    return row


def _named(name: str, value: Any, depth: int = 0) -> Iterator[tuple[str, Feature]]:
    if isinstance(value, bool):
        yield name, str(value).lower()
    elif isinstance(value, int | float):
        if abs(value) < 1e300:  # neither NaN nor infinite, which JSON of a database does not hold
            yield name, float(value)
    elif isinstance(value, str):
        yield (name, value) if len(value) <= LONGEST_TEXT else (f"{name}.length", float(len(value)))
    elif isinstance(value, dict) and depth < 3:
        for key, inner in value.items():
            yield from _named(f"{name}.{str(key)[:LONGEST_TEXT]}", inner, depth + 1)
    elif isinstance(value, list) and depth < 3:
        yield from _listed(name, value, depth)


def _listed(name: str, values: list[Any], depth: int) -> Iterator[tuple[str, Feature]]:
    numbers = [
        float(one)
        for one in values
        if isinstance(one, int | float) and not isinstance(one, bool) and abs(one) < 1e300
    ]
    if len(values) <= MOST_PLACES:
        for place, inner in enumerate(values):
            yield from _named(f"{name}[{place}]", inner, depth + 1)
    elif len(numbers) < len(values):
        yield f"{name}.length", float(len(values))
    elif len(numbers) <= LARGEST_EMBEDDING:
        yield name, numbers
    else:
        mean = math.fsum(numbers) / len(numbers)
        yield f"{name}.mean", mean
        yield f"{name}.deviation", math.sqrt(math.fsum((one - mean) ** 2 for one in numbers) / len(numbers))
