"""When a model is retrained, within which limits, and how far without a person: one frozen value that is sound."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from platform_core.jobs.fields import described, load_fields, plain_fields, read_fields, schema_of
from platform_core.jobs.kinds import Kind, choice, line, scaled, truth, whole
from platform_core.jobs.reader import Problem, Reader, SpecError, shown
from platform_core.registry.gates import Direction
from platform_core.serving.canary import CanaryPolicy
from platform_core.units import DAY_MS, HOUR_MS, MINUTE_MS

LONGEST_METRIC = 250
ONLINE_METRICS = ("accuracy", "error")  # of the labels that are sent to an endpoint
_OVERDUE = 60 * 24 * 7  # minutes


class Section(StrEnum):
    TRIGGERS = "Triggers"
    LIMITS = "Limits"
    STEPS = "Steps"


def _number() -> Kind:
    """A finite number."""

    def read(reader: Reader, name: str, default: float) -> float:
        value = reader.value(name)
        if value is None:
            return default
        try:
            number = (
                float(value)
                if isinstance(value, int | float | str) and not isinstance(value, bool)
                else math.nan
            )
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            reader.say(name, f"is {shown(value)}; it must be a number")
            return default
        return number

    return Kind(read, {"type": "number"}, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrainingPolicy:
    """Made by `parse`, which refuses bad values, all of them at once."""

    endpoint: str = described(
        line(60, pattern=r"[a-z0-9][a-z0-9-]*", words="the name of an endpoint of the team"),
        "Endpoint", "Which serves the model, is watched, and gets the canary; empty: a cycle ends at the gate.",
        Section.TRIGGERS, default="", example="mlp",
    )  # fmt: skip
    enabled: bool = described(
        truth(), "Enabled", "No: only people begin cycles.", Section.TRIGGERS, default=True
    )
    drift: bool = described(
        truth(), "Drift", "The endpoint is asked or answers otherwise than before.", Section.TRIGGERS, default=False
    )  # fmt: skip
    max_age_days: int = described(
        whole(0, 3_650), "Maximum age (days)", "Of the version in production; 0: it may be of any age.",
        Section.TRIGGERS, default=0,
    )  # fmt: skip
    decay_metric: str = described(
        line(LONGEST_METRIC), "Decay: metric", "Of the version in production that must hold a bound; empty: none.",
        Section.TRIGGERS, default="", example="accuracy",
    )  # fmt: skip
    decay_suite: str = described(
        line(120), "Decay: suite", "That measures the metric; empty: the labels sent to the endpoint do.",
        Section.TRIGGERS, default="", example="held-out",
    )  # fmt: skip
    decay_direction: Direction = described(  # noqa: RUF009
        choice(Direction), "Decay: better is", "Which of two values is the better one.", Section.TRIGGERS,
        default=Direction.HIGHER,
    )  # fmt: skip
    decay_bound: float = described(
        _number(), "Decay: bound", "A worse value is a decay.", Section.TRIGGERS, default=0.0, example="0.9"
    )
    for_minutes: int = described(
        whole(0, _OVERDUE), "For (min)", "How long drift or decay must last.", Section.TRIGGERS, default=10
    )
    min_interval_hours: int = described(
        whole(1, 8_760), "Minimum interval (h)", "From the beginning of one cycle to that of the next.",
        Section.LIMITS, default=24,
    )  # fmt: skip
    max_cycles_a_week: int = described(
        whole(1, 100), "Cycles a week", "At most so many in seven days.", Section.LIMITS, default=3
    )
    gpu_hours_a_week: int = described(
        scaled(HOUR_MS, 1_000_000, positive=True), "GPU-hours a week",
        "Those spent in seven days and those that the next job may need.", Section.LIMITS, default=24 * HOUR_MS,
    )  # fmt: skip
    needs_new_data: bool = described(
        truth(), "Needs new data", "Nothing begins before there is a newer version of the dataset.", Section.LIMITS,
        default=False,
    )  # fmt: skip
    approve_training: bool = described(
        truth(), "Approve training", "A lead approves each training job before it is submitted.", Section.STEPS,
        default=False,
    )  # fmt: skip
    approve_canary: bool = described(
        truth(),
        "Approve canary",
        "A lead approves each canary before it starts.",
        Section.STEPS,
        default=True,
    )
    share_percent: int = described(
        scaled(100, 100, positive=True), "Canary share (%)", "Of the requests.", Section.STEPS, default=1_000
    )
    watch_minutes: int = described(
        whole(0, _OVERDUE), "Watch (min)", "How long the canary is watched.", Section.STEPS, default=10
    )
    min_requests: int = described(
        whole(0, 1_000_000_000), "Minimum requests", "That the canary must have answered.", Section.STEPS, default=100
    )  # fmt: skip
    automatic: bool = described(
        truth(),
        "Promote by itself",
        "No: people promote the canary or roll it back.",
        Section.STEPS,
        default=True,
    )

    @property
    def canary(self) -> CanaryPolicy:
        return CanaryPolicy(
            share=self.share_percent, watch_ms=self.watch_minutes * MINUTE_MS, min_requests=self.min_requests,
            automatic=self.automatic,
        )  # fmt: skip

    @property
    def lasts_ms(self) -> int:
        return self.for_minutes * MINUTE_MS

    @property
    def max_age_ms(self) -> int:
        return self.max_age_days * DAY_MS

    def is_worse(self, value: float) -> bool:
        """Whether the metric of the decay is beyond its bound; also for NaN."""
        holds = (
            value >= self.decay_bound
            if self.decay_direction is Direction.HIGHER
            else value <= self.decay_bound
        )
        return not holds


SCHEMA = schema_of(RetrainingPolicy)


def parse(mapping: object) -> RetrainingPolicy:
    """The policy of a REST body or a file; SpecError of policy_invalid with every problem when it is not sound."""
    if not isinstance(mapping, Mapping):
        sentence = f"a retraining policy is a mapping of fields, not {shown(mapping)}"
        raise SpecError((Problem("", sentence),), "policy_invalid")
    problems: list[Problem] = []
    reader = Reader(mapping, problems)
    policy: RetrainingPolicy = read_fields(RetrainingPolicy, reader)
    reader.refuse_the_rest()
    if not problems:
        _check(policy, reader)
    if problems:
        raise SpecError(tuple(problems), "policy_invalid")
    return policy


def _check(policy: RetrainingPolicy, reader: Reader) -> None:
    if policy.enabled and not (policy.drift or policy.max_age_days or policy.decay_metric):
        reader.refuse("enabled", "nothing would begin a cycle; give drift, max_age_days or decay_metric")
    if policy.drift and not policy.endpoint:
        reader.refuse("drift", "drift is measured at an endpoint; name it in endpoint")
    if policy.decay_suite and not policy.decay_metric:
        reader.refuse("decay_suite", f"name the metric of {policy.decay_suite} in decay_metric")
    if policy.decay_metric and not policy.decay_suite:
        _check_online(policy, reader)


def _check_online(policy: RetrainingPolicy, reader: Reader) -> None:
    if not policy.endpoint:
        reader.refuse(
            "decay_metric", "labels are sent to an endpoint; name it in endpoint, or a suite in decay_suite"
        )
    elif policy.decay_metric not in ONLINE_METRICS:
        words = " or ".join(ONLINE_METRICS)
        reader.refuse(
            "decay_metric",
            f"decay_metric is {shown(policy.decay_metric)}; labels give {words}; or name a decay_suite",
        )


def load(mapping: Mapping[str, Any]) -> RetrainingPolicy:
    """The policy that `as_mapping` wrote."""
    policy: RetrainingPolicy = load_fields(RetrainingPolicy, mapping)
    return policy


def as_mapping(policy: RetrainingPolicy) -> dict[str, Any]:
    return plain_fields(policy)
