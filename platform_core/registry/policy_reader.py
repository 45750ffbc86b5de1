"""The policy of a gate read from a mapping of JSON, and written as one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from platform_core.errors import TrainmasterError
from platform_core.registry.gates import Direction, Margin, Measurer, Policy, Threshold

ROLES = ("lead", "member")
MOST_RULES, MOST_APPROVALS = 100, 10
_FIELDS = {
    "thresholds", "margins", "measured_by", "self_validation", "uncontaminated", "serving_target", "approvals",
    "approvers",
}  # fmt: skip
_THRESHOLD = {"suite", "metric", "direction", "bound", "every_slice"}
_MARGIN = {"suite", "metric", "direction", "worse_by"}


def read(fields: Mapping[str, Any]) -> Policy:
    """Raises request_invalid with the field, its value and what it may be."""
    _only(fields, _FIELDS, "the gate")
    approvals = fields.get("approvals", 0)
    if isinstance(approvals, bool) or not isinstance(approvals, int) or not 0 <= approvals <= MOST_APPROVALS:
        raise _invalid("approvals", approvals, f"it must be a whole number from 0 to {MOST_APPROVALS}")
    approvers = fields.get("approvers", ["lead"])
    if not isinstance(approvers, list) or not approvers or any(role not in ROLES for role in approvers):
        raise _invalid("approvers", approvers, f"it must be a list of {' and '.join(ROLES)}")
    measured_by = fields.get("measured_by", "anyone")
    if measured_by not in tuple(Measurer):
        raise _invalid("measured_by", measured_by, "it must be server or anyone")
    serving_target = fields.get("serving_target", "")
    if not isinstance(serving_target, str) or len(serving_target) > 60 or not serving_target.isprintable():
        raise _invalid("serving_target", serving_target, "it must be the name of a serving target")
    return Policy(
        thresholds=tuple(_threshold(row) for row in _rows(fields, "thresholds")),
        margins=tuple(_margin(row) for row in _rows(fields, "margins")),
        self_validation=_flag(fields, "self_validation"),
        uncontaminated=_flag(fields, "uncontaminated"),
        serving_target=serving_target,
        approvals=approvals,
        measured_by=Measurer(measured_by),
        approvers=frozenset(approvers),
    )


def as_mapping(policy: Policy) -> dict[str, Any]:
    return {
        "thresholds": [
            {**_rule(rule), "bound": rule.bound, "every_slice": rule.every_slice}
            for rule in policy.thresholds
        ],
        "margins": [{**_rule(rule), "worse_by": rule.worse_by} for rule in policy.margins],
        "measured_by": policy.measured_by.value,
        "self_validation": policy.self_validation,
        "uncontaminated": policy.uncontaminated,
        "serving_target": policy.serving_target,
        "approvals": policy.approvals,
        "approvers": sorted(policy.approvers),
    }


def _rule(rule: Threshold | Margin) -> dict[str, Any]:
    return {"suite": rule.suite, "metric": rule.metric, "direction": rule.direction.value}


def _rows(fields: Mapping[str, Any], name: str) -> list[Any]:
    rows = fields.get(name, [])
    if not isinstance(rows, list) or len(rows) > MOST_RULES:
        raise _invalid(name, rows, f"it must be a list of at most {MOST_RULES} rules")
    return rows


def _threshold(row: Any) -> Threshold:
    _only(row, _THRESHOLD, "a threshold")
    return Threshold(*_subject(row), _number(row, "bound"), _flag(row, "every_slice"))


def _margin(row: Any) -> Margin:
    _only(row, _MARGIN, "a margin")
    worse_by = _number({"worse_by": 0.0, **row}, "worse_by")
    if worse_by < 0:
        raise _invalid("worse_by", worse_by, "it must be 0 or more")
    return Margin(*_subject(row), worse_by)


def _subject(row: Mapping[str, Any]) -> tuple[str, str, Direction]:
    suite, metric, direction = row.get("suite"), row.get("metric"), row.get("direction", "higher")
    if not isinstance(suite, str) or not suite:
        raise _invalid("suite", suite, "it must be the name of a suite")
    if not isinstance(metric, str) or not metric:
        raise _invalid("metric", metric, "it must be the name of a metric")
    if direction not in tuple(Direction):
        raise _invalid("direction", direction, "it must be higher or lower, which of them is better")
    return suite, metric, Direction(direction)


def _number(row: Mapping[str, Any], name: str) -> float:
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise _invalid(name, value, "it must be a finite number")
    return float(value)


def _flag(row: Mapping[str, Any], name: str) -> bool:
    value = row.get(name, False)
    if not isinstance(value, bool):
        raise _invalid(name, value, "it must be true or false")
    return value


def _only(row: Any, known: set[str], what: str) -> None:
    if not isinstance(row, Mapping):
        raise _invalid(what, row, "it must be an object")
    if unknown := sorted(set(map(str, row)) - known):
        raise TrainmasterError(
            "request_invalid", what=what, why=f"{unknown[0][:60]!r} is none of {', '.join(sorted(known))}"
        )


def _invalid(name: str, value: object, why: str) -> TrainmasterError:
    return TrainmasterError("request_invalid", what=f"{name} {str(value)[:60]!r}", why=why)
