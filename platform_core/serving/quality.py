"""How good the answers of an endpoint were, once it is known what they should have been."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LEAST = 30  # labels; fewer say nothing
_EQUAL = 1e-9


@dataclass(frozen=True, slots=True)
class Outcome:
    correct: bool
    error: float  # the distance of numbers; of classes and texts 0 or 1


@dataclass(frozen=True, slots=True)
class Quality:
    """Of the answers that have a label."""

    answers: int = 0  # sampled
    labelled: int = 0
    correct: int = 0
    error: float | None = None  # mean

    @property
    def accuracy(self) -> float | None:
        return self.correct / self.labelled if self.labelled else None

    def value(self, metric: str) -> float | None:
        """`accuracy` or `error`; None where too few answers have a label."""
        if self.labelled < LEAST:
            return None
        return self.accuracy if metric == "accuracy" else self.error


def outputs_of(features: Mapping[str, Any]) -> dict[str, Any]:
    """What of the features of a request and its answer a label is compared with."""
    return {name: value for name, value in features.items() if name == "output" or name.startswith("output[")}


def outcome(outputs: Mapping[str, Any], label: object) -> Outcome | None:
    """None where the label has another shape than the answer.

    A whole number labels a list of scores: it is the place of the greatest. A list labels a list of numbers.
    """
    scores = _scores(outputs)
    if scores and isinstance(label, list):
        return _of_numbers(scores, label)
    if scores and isinstance(label, int) and not isinstance(label, bool):
        return _of_class(scores.index(max(scores)) == label) if 0 <= label < len(scores) else None
    answer = outputs.get("output")
    if isinstance(label, bool):
        label = str(label).lower() if isinstance(answer, str) else float(label)
    if isinstance(answer, int | float) and isinstance(label, int | float):
        return _of_numbers([float(answer)], [label])
    if isinstance(answer, str) and isinstance(label, str):
        return _of_class(answer == label)
    return None


def _scores(outputs: Mapping[str, Any]) -> list[float]:
    whole = outputs.get("output")
    if isinstance(whole, list):
        return [float(value) for value in whole]
    places = [outputs.get(f"output[{place}]") for place in range(len(outputs))]
    return [float(value) for value in places if isinstance(value, int | float)] if None not in places else []


def _of_numbers(answer: list[float], label: list[Any]) -> Outcome | None:
    numbers = [float(value) for value in label if isinstance(value, int | float)]
    if len(numbers) != len(label) or len(numbers) != len(answer):
        return None
    error = sum(abs(given - wanted) for given, wanted in zip(answer, numbers, strict=True)) / len(answer)
    return Outcome(error <= _EQUAL, error)


def _of_class(correct: bool) -> Outcome:
    return Outcome(correct, 0.0 if correct else 1.0)
