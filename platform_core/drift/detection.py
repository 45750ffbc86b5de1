"""Which features of a window have drifted from the reference, overall and by slice."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from platform_core.drift import distances
from platform_core.drift.distances import Distance

LEAST = 50  # values of a feature in the window; fewer say nothing
FALSE_ALARMS = 0.005  # of a window without drift, over all its features and slices together

Value = float | str | tuple[float, ...]
_Test = tuple[str, Callable[..., Distance], Any, Any]  # name, distance, reference, window


@dataclass(frozen=True, slots=True)
class Row:
    """One request and its answer: `features` by name, numbers, texts or embeddings; `slices` as "language = de"."""

    features: Mapping[str, Value]
    slices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    feature: str
    slice: str  # "" for all rows
    test: str
    value: float
    limit: float
    reference: int  # values
    window: int
    against: str = ""  # which reference

    @property
    def moved(self) -> bool:
        return self.value > self.limit


def judge(
    reference: Sequence[Row], window: Sequence[Row], false_alarms: float = FALSE_ALARMS
) -> tuple[Finding, ...]:
    """Returns one finding a test that had enough values, those that moved most first.

    The share of false alarms is divided by the number of tests (Bonferroni), so that a model of a hundred features is
    no noisier than one of two.
    """
    places = ["", *sorted({name for row in window for name in row.slices})]
    features = sorted({name for row in window for name in row.features})
    tests = [
        (feature, place, name, test, before, now)
        for place in places
        for feature in features
        for name, test, before, now in _tests(
            _values(reference, feature, place), _values(window, feature, place)
        )
        if min(len(before), len(now)) >= LEAST
    ]
    findings = []
    for feature, place, name, test, before, now in tests:
        measured = test(before, now, false_alarms / len(tests))
        findings.append(Finding(feature, place, name, measured.value, measured.limit, len(before), len(now)))
    return tuple(sorted(findings, key=_rank))


def judge_against(references: Mapping[str, Sequence[Row]], window: Sequence[Row]) -> tuple[Finding, ...]:
    """The findings against each reference by its name. They share the false alarms of one window."""
    findings = [
        replace(finding, against=name)
        for name, reference in references.items()
        for finding in judge(reference, window, FALSE_ALARMS / len(references))
    ]
    return tuple(sorted(findings, key=_rank))


def _rank(finding: Finding) -> tuple[float, str, str, str]:
    return -finding.value / max(finding.limit, 1e-12), finding.feature, finding.slice, finding.test


def _values(rows: Sequence[Row], feature: str, place: str) -> list[Value]:
    return [
        row.features[feature]
        for row in rows
        if feature in row.features and (not place or place in row.slices)
    ]


def _tests(before: Sequence[Value], now: Sequence[Value]) -> list[_Test]:
    """By what the feature holds: embeddings of one length, numbers, or else texts. Missing numbers have their test."""
    values = (*before, *now)
    if values and all(isinstance(value, tuple) for value in values):
        alike = len({len(value) for value in values if isinstance(value, tuple)}) == 1
        return [("embedding", distances.embeddings, np.asarray(before), np.asarray(now))] if alike else []
    if not all(isinstance(value, float | int) for value in values):
        return [("categories", distances.categories, [*map(str, before)], [*map(str, now)])]
    numbers, numbers_now = _finite(before), _finite(now)
    tests: list[_Test] = [(name, test, numbers, numbers_now) for name, test in _OF_NUMBERS.items()]
    if len(numbers) + len(numbers_now) < len(values):
        tests.append(("missing", distances.categories, _presence(before), _presence(now)))
    return tests


def _finite(values: Sequence[Value]) -> list[float]:
    return [value for value in values if isinstance(value, float | int) and math.isfinite(value)]


def _presence(values: Sequence[Value]) -> list[str]:
    present = len(_finite(values))
    return ["present"] * present + ["missing"] * (len(values) - present)


_OF_NUMBERS: dict[str, Callable[..., Distance]] = {
    "kolmogorov-smirnov": distances.kolmogorov_smirnov,
    "psi": distances.population_stability,
    "jensen-shannon": distances.jensen_shannon,
}
