"""A run and its repetition: what of their making differs, and whether their metrics agree."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from platform_core.experiments.diffs import Change, changes

# Sums of floats in another order move results of long trainings by about so much; see the references in
# docs/how-to/run-a-job-again.md.
TOLERANCE = 0.01
SUBJECTS = ("code", "data", "image", "packages", "hardware", "settings")


@dataclass(frozen=True, slots=True)
class MadeOf:
    """What a run was made of. Each is name → text; '' and missing names count as not known."""

    code: Mapping[str, str]
    data: Mapping[str, str]
    image: Mapping[str, str]
    packages: Mapping[str, str]
    hardware: Mapping[str, str]
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Subject:
    name: str  # of SUBJECTS
    known: bool  # on both sides
    changes: tuple[Change, ...]


class Agreement(StrEnum):
    IDENTICAL = "identical"  # to the last digit
    AGREES = "agrees"  # within the tolerance
    DIFFERS = "differs"
    MISSING = "missing"  # only one of the two has it


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    before: float | None
    after: float | None
    deviation: float | None  # of the larger magnitude; None where one is missing or not finite
    agreement: Agreement


def subjects(before: MadeOf, after: MadeOf) -> tuple[Subject, ...]:
    """What differs by subject, all of SUBJECTS in their order."""
    return tuple(_subject(name, getattr(before, name), getattr(after, name)) for name in SUBJECTS)


def _subject(name: str, before: Mapping[str, str], after: Mapping[str, str]) -> Subject:
    left, right = ({key: text for key, text in side.items() if text} for side in (before, after))
    return Subject(name, bool(left) == bool(right), tuple(changes(left, right)))


def metrics(before: Mapping[str, float], after: Mapping[str, float]) -> tuple[Metric, ...]:
    """The last values of both runs, those that agree least first."""
    names = before.keys() | after.keys()
    found = [_metric(name, before.get(name), after.get(name)) for name in names]
    order = [Agreement.DIFFERS, Agreement.MISSING, Agreement.AGREES, Agreement.IDENTICAL]
    return tuple(
        sorted(found, key=lambda row: (order.index(row.agreement), -(row.deviation or 0.0), row.name))
    )


def _metric(name: str, before: float | None, after: float | None) -> Metric:
    if before is None or after is None:
        return Metric(name, before, after, None, Agreement.MISSING)
    if before == after or (math.isnan(before) and math.isnan(after)):
        return Metric(name, before, after, 0.0 if math.isfinite(before) else None, Agreement.IDENTICAL)
    if not math.isfinite(before) or not math.isfinite(after):
        return Metric(name, before, after, None, Agreement.DIFFERS)
    # Halved before they are subtracted: the difference of two large numbers may be infinite.
    deviation = 2.0 * (abs(after / 2.0 - before / 2.0) / max(abs(before), abs(after)))
    agreement = Agreement.AGREES if deviation <= TOLERANCE else Agreement.DIFFERS
    return Metric(name, before, after, deviation, agreement)


def sentence(subjects: tuple[Subject, ...], metrics: tuple[Metric, ...]) -> str:
    """The verdict on both: what differs in the making, then what came of it."""
    differing = [subject.name for subject in subjects if subject.changes]
    made = (
        f"Different {' and '.join(_listed(differing))}"
        if differing
        else "The same in everything that is known"
    )
    if not metrics:
        return f"{made}. No metric can be compared yet."
    differ = sum(row.agreement is Agreement.DIFFERS for row in metrics)
    missing = sum(row.agreement is Agreement.MISSING for row in metrics)
    identical = sum(row.agreement is Agreement.IDENTICAL for row in metrics)
    if differ:
        return f"{made}. {differ} of {len(metrics)} metrics differ by more than {TOLERANCE:.0%}."
    if missing:
        return f"{made}. {missing} of {len(metrics)} metrics are there in one of the two only."
    one = len(metrics) == 1
    all_of_them = "The metric" if one else f"All {len(metrics)} metrics"
    if identical == len(metrics):
        return f"{made}. {all_of_them} {'is' if one else 'are'} identical."
    return f"{made}. {all_of_them} {'agrees' if one else 'agree'} within {TOLERANCE:.0%}."


def _listed(names: list[str]) -> list[str]:
    return names if len(names) < 3 else [", ".join(names[:-1]), names[-1]]
