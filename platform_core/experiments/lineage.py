"""What a run was made of, as clients and scripts tell it: checked once, before it is kept."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from platform_core.errors import TrainmasterError
from platform_core.experiments.fields import MAX_PARAMETERS, sorted_out
from platform_core.json_values import storable
from platform_core.units import format_bytes

MAX_FIELDS = 50
MAX_BYTES = 1 << 20  # of all that a client submits: a diff, mostly
MAX_PACKAGES = 2_000
MAX_TEXT = 2_000
SILENT_SINCE = "silent_since_ms"  # in the lineage of a run that was ended because it reported nothing
_NAME = re.compile(r"[a-z][a-z0-9_]{0,59}")


def submitted(lineage: Mapping[str, Any]) -> dict[str, str]:
    """The lineage of a new job: texts by name, such as git_commit. Raises request_invalid."""
    for name, value in lineage.items():
        if not _NAME.fullmatch(name) or name.startswith("reported_"):
            raise _invalid(f"{name[:60]!r} is no name of a field, such as git_commit")
        if not isinstance(value, str):
            raise _invalid(f"{name} is {type(value).__name__}; it must be text")
    size = sum(len(value.encode(errors="replace")) for value in lineage.values())
    if len(lineage) > MAX_FIELDS or size > MAX_BYTES:
        limits = f"{MAX_FIELDS} fields and {format_bytes(MAX_BYTES)}"
        raise _invalid(f"it has {len(lineage)} fields and {format_bytes(size)}; the limits are {limits}")
    return {name: str(storable(value)) for name, value in lineage.items()}


def _invalid(why: str) -> TrainmasterError:
    return TrainmasterError("request_invalid", what="lineage", why=why)


def reported(fields: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """Of what a script says at its start: parameters, lineage, and a sentence for each field that is left out."""
    problems: list[str] = []
    parameters = _parameters(fields.get("params"), problems)
    lineage: dict[str, Any] = {}
    if packages := _packages(fields.get("packages"), problems):
        lineage["reported_packages"] = packages
    for name in ("seed", "hardware", "python"):
        value = fields.get(name)
        if value is not None and _is_scalar(value):
            lineage[f"reported_{name}"] = storable(value)
        elif value is not None:
            problems.append(f"{name} must be text or a number of at most {MAX_TEXT} characters")
    return parameters, lineage, problems


def logged(fields: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The lineage that a process outside the platform logs, and a sentence for each field that is left out."""
    _, lineage, problems = reported(fields)
    size = 0
    for name, value in fields.items():
        if name in ("params", "packages", "seed", "hardware", "python"):
            continue
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name.startswith("reported_"):
            problems.append(f"{str(name)[:60]!r} is no name of a field, such as git_commit")
            continue
        size += len(repr(value))
        if len(lineage) >= MAX_FIELDS or size > MAX_BYTES:
            problems.append(f"lineage may have {MAX_FIELDS} fields and {format_bytes(MAX_BYTES)}")
            break
        lineage[name] = storable(value)
    return lineage, problems


def _parameters(given: Any, problems: list[str]) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        problems.append(f"params must be values by name, not {type(given).__name__}")
        return {}
    kept, left_out = sorted_out("parameter", given, MAX_PARAMETERS)
    problems += left_out
    return kept


def _packages(given: Any, problems: list[str]) -> dict[str, str]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        problems.append(f"packages must be versions by name, not {type(given).__name__}")
        return {}
    good = {
        name: version for name, version in given.items() if len(str(name)) <= MAX_TEXT and _is_scalar(version)
    }
    if len(good) < len(given) or len(good) > MAX_PACKAGES:
        problems.append(f"packages may have {MAX_PACKAGES:,} versions, each up to {MAX_TEXT:,} characters")
    return {name: str(version) for name, version in list(storable(good).items())[:MAX_PACKAGES]}


def _is_scalar(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= MAX_TEXT
    if isinstance(value, int):
        return abs(value) < 1 << 63
    return value is None or (isinstance(value, float) and not math.isnan(value))
