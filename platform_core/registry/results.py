"""What an evaluation writes, a line of JSON a sample.

`{"id": "17", "metrics": {"f1": 0.5}, "slices": {"language": "de"}}`
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from platform_core.errors import TrainmasterError
from platform_core.registry.estimates import Sample

MOST_SAMPLES = 1_000_000
MOST_METRICS = 64
MOST_SLICES = 16  # of one sample
_LONGEST = 250


def read(lines: Iterable[str]) -> tuple[Sample, ...]:
    """Raises request_invalid with the line and the reason; a sample counts once."""
    samples: dict[str, Sample] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        sample = _sample(line, number)
        if sample.id in samples:
            raise _invalid(number, f"sample {sample.id[:60]!r} was there before")
        if len(samples) == MOST_SAMPLES:
            raise _invalid(number, f"an evaluation has at most {MOST_SAMPLES:,} samples")
        samples[sample.id] = sample
    if not samples:
        raise TrainmasterError("request_invalid", what="the evaluation", why="it has no samples")
    return tuple(samples.values())


def _sample(line: str, number: int) -> Sample:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _invalid(number, f"it is not JSON: {error}") from error
    if not isinstance(row, dict):
        raise _invalid(number, "it is not an object")
    key = row.get("id")
    if not isinstance(key, str | int) or isinstance(key, bool) or not 0 < len(str(key)) <= _LONGEST:
        raise _invalid(number, f"id must be a text of 1 to {_LONGEST} characters or a whole number")
    return Sample(str(key), _metrics(row.get("metrics"), number), _slices(row.get("slices", {}), number))


def _metrics(value: Any, number: int) -> dict[str, float]:
    if not isinstance(value, dict) or not 0 < len(value) <= MOST_METRICS:
        raise _invalid(number, f"metrics must be an object of 1 to {MOST_METRICS} numbers")
    for name, measured in value.items():
        if isinstance(measured, bool) or not isinstance(measured, int | float) or len(name) > _LONGEST:
            raise _invalid(number, f"metric {name[:60]!r} is not a number: {str(measured)[:60]!r}")
    return {name: float(measured) for name, measured in value.items()}


def _slices(value: Any, number: int) -> tuple[str, ...]:
    if not isinstance(value, dict) or len(value) > MOST_SLICES:
        raise _invalid(number, f"slices must be an object of at most {MOST_SLICES} texts")
    names = tuple(f"{name} = {part}" for name, part in sorted(value.items()))
    if any(len(name) > _LONGEST for name in names):
        raise _invalid(number, f"a slice has more than {_LONGEST} characters")
    return names


def _invalid(number: int, why: str) -> TrainmasterError:
    return TrainmasterError("request_invalid", what=f"line {number} of the evaluation", why=why)
