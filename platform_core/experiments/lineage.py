"""What a run was made of, as clients and scripts tell it: checked once, before it is kept."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from platform_core.errors import TrainmasterError
from platform_core.json_values import storable
from platform_core.units import format_bytes

MAX_FIELDS = 50
MAX_BYTES = 1 << 20  # of all that a client submits: a diff, mostly
MAX_PARAMETERS = 500
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
    parameters = _scalars(fields.get("params"), "params", MAX_PARAMETERS, problems)
    lineage: dict[str, Any] = {}
    if packages := _scalars(fields.get("packages"), "packages", MAX_PACKAGES, problems):
        lineage["reported_packages"] = {name: str(version) for name, version in packages.items()}
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


def _scalars(value: Any, what: str, limit: int, problems: list[str]) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        problems.append(f"{what} must be values by name, not {type(value).__name__}")
        return {}
    good = {
        name: inner for name, inner in value.items() if len(str(name)) <= MAX_TEXT and _is_parameter(inner)
    }
    if len(good) < len(value) or len(good) > limit:
        problems.append(
            f"{what} may have {limit} texts, numbers and lists of these, each up to {MAX_TEXT} characters"
        )
    return dict(list(storable(good).items())[:limit])


def _is_parameter(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return len(value) <= MAX_FIELDS and all(map(_is_scalar, value))
    if isinstance(value, Mapping):
        return len(value) <= MAX_FIELDS and all(map(_is_scalar, value.values()))
    return _is_scalar(value)


def _is_scalar(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= MAX_TEXT
    if isinstance(value, int):
        return abs(value) < 1 << 63
    return value is None or (isinstance(value, float) and not math.isnan(value))
