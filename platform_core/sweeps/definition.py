"""The fields of a sweep file, each described once: parser, JSON, REST schema and reference are made from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from platform_core.jobs.definition import MAX_HOURS
from platform_core.jobs.fields import described, nested
from platform_core.jobs.kinds import Kind, choice, line, scaled, slug, truth, whole
from platform_core.jobs.reader import Reader, shown
from platform_core.sweeps.space import Space
from platform_core.sweeps.space_reader import load_space, plain_space, read_space
from platform_core.units import HOUR_MS, MICRO_DOLLARS

MAX_TRIALS = 5_000
MAX_PARALLEL = 500
MAX_STEPS = 10**9


class Section(StrEnum):
    """A section of the reference, under its title."""

    BASICS = "Basics"
    SPACE = "Search space"
    OBJECTIVE = "Objective"
    STOPPING = "Early stopping"
    BUDGET = "Budget"
    TRIALS = "Trials"


class Method(StrEnum):
    GRID = "grid"
    RANDOM = "random"
    TPE = "tpe"
    GP = "gp"
    CMAES = "cmaes"
    EXTERNAL = "external"


class Goal(StrEnum):
    MINIMIZE = "minimize"
    MAXIMIZE = "maximize"


class Choice(StrEnum):
    """Which value of the metric is the value of a trial."""

    BEST = "best"
    LAST = "last"


class Rule(StrEnum):
    NONE = "none"
    ASHA = "asha"
    HYPERBAND = "hyperband"
    MEDIAN = "median"


def _mapping() -> Kind:
    """The fields of a job file; they are checked by whoever makes the jobs."""

    def read(reader: Reader, name: str, default: Any) -> Any:
        value = reader.value(name)
        if value is not None and not isinstance(value, Mapping):
            reader.say(name, f"is {shown(value)}; write the fields of a job file below it")
            return None
        return dict(value) if value else None

    return Kind(read, {"type": "object", "additionalProperties": True}, _job, _job)


def _job(mapping: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return dict(mapping) if mapping else None


_SPACE = Kind(
    read_space,
    {"type": "object", "additionalProperties": True, "description": "see docs/reference/sweep-file.md"},
    load_space,
    plain_space,
    required=True,
)


@dataclass(frozen=True, slots=True)
class Objective:
    metric: str = described(
        line(250, required="name the metric that the script logs, such as val/loss"),
        "Metric", "The metric by which trials are judged, as the script logs it.",
        Section.OBJECTIVE, example="val/loss",
    )  # fmt: skip
    goal: Goal = described(  # noqa: RUF009
        choice(Goal), "Goal", "Which direction is better.", Section.OBJECTIVE, default=Goal.MINIMIZE
    )
    value: Choice = described(  # noqa: RUF009
        choice(Choice), "Value", "The value of a trial: the best or the last one that it reported.",
        Section.OBJECTIVE, default=Choice.BEST,
    )  # fmt: skip

    def better(self, value: float, other: float) -> bool:
        return value < other if self.goal is Goal.MINIMIZE else value > other

    def rank(self, value: float) -> float:
        """Less is better; what is not a number is worst."""
        return float("inf") if value != value else value if self.goal is Goal.MINIMIZE else -value


@dataclass(frozen=True, slots=True)
class EarlyStopping:
    rule: Rule = described(  # noqa: RUF009
        choice(Rule), "Rule",
        "`asha` and `hyperband` keep the best of each rung, `median` prunes what is worse than the median.",
        Section.STOPPING, default=Rule.NONE,
    )  # fmt: skip
    min_steps: int = described(
        whole(1, MAX_STEPS), "Minimum steps", "No trial is pruned before this step: the first rung.",
        Section.STOPPING, default=1,
    )  # fmt: skip
    max_steps: int = described(
        whole(0, MAX_STEPS), "Maximum steps", "Steps of a whole trial; `hyperband` needs them for its brackets.",
        Section.STOPPING, default=0,
    )  # fmt: skip
    eta: int = described(
        whole(2, 10), "Eta", "One trial in eta passes a rung; the next rung is eta times as far.",
        Section.STOPPING, default=3,
    )  # fmt: skip
    interval_steps: int = described(
        whole(0, MAX_STEPS), "Interval", "`median` compares every so many steps; 0: every `min_steps`.",
        Section.STOPPING, default=0,
    )  # fmt: skip
    startup_trials: int = described(
        whole(1, 1_000), "Startup trials", "`median` prunes nothing before so many trials have reached the step.",
        Section.STOPPING, default=4,
    )  # fmt: skip
    save: bool = described(
        truth(), "Save when pruned", "A pruned trial may save a checkpoint before it ends.",
        Section.STOPPING, default=False,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Budget:
    """What a sweep may use; 0 is no limit, except for trials."""

    trials: int = described(
        whole(0, MAX_TRIALS),
        "Trials",
        "How many settings are tried; 0: the whole grid.",
        Section.BUDGET,
        default=0,
    )
    gpu_ms: int = described(
        scaled(HOUR_MS, 10_000_000, positive=False), "GPU-hours", "Of all trials together; 0: no limit.",
        Section.BUDGET, default=0, name="gpu_hours",
    )  # fmt: skip
    micro_dollars: int = described(
        scaled(MICRO_DOLLARS, 10_000_000, positive=False), "Cost ($)", "Of all trials together; 0: no limit.",
        Section.BUDGET, default=0, name="cost",
    )  # fmt: skip
    wall_ms: int = described(
        scaled(HOUR_MS, MAX_HOURS, positive=False), "Hours", "Since the sweep was created; 0: no limit.",
        Section.BUDGET, default=0, name="hours",
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepSpec:
    """Made by `spec.parse`, which refuses bad values and combinations, all of them at once."""

    name: str = described(
        line(80, required="give the sweep a name of 1 to 80 characters"),
        "Name", "Its trials are named after it: NAME-1, NAME-2, …", Section.BASICS, example="bytelm-lr",
    )  # fmt: skip
    team: str = described(
        slug(60, "the team's short name, such as vision", required="name the team that runs the sweep"),
        "Team", "Whose quota the trials use.", Section.BASICS,
    )  # fmt: skip
    method: Method = described(  # noqa: RUF009
        choice(Method), "Method",
        "How settings are chosen: `tpe`, `gp` and `cmaes` learn from earlier trials; `external`: a program of yours "
        "chooses.",
        Section.BASICS, default=Method.TPE,
    )  # fmt: skip
    seed: int = described(
        whole(0, 2**31 - 1),
        "Seed",
        "The same seed and results give the same settings.",
        Section.BASICS,
        default=0,
    )
    space: Space = described(  # noqa: RUF009
        _SPACE, "Search space", "The parameters, see above.", Section.SPACE
    )
    objective: Objective = nested(Objective, Section.OBJECTIVE)  # noqa: RUF009
    stopping: EarlyStopping = nested(EarlyStopping, Section.STOPPING, name="early_stopping")  # noqa: RUF009
    budget: Budget = nested(Budget, Section.BUDGET)  # noqa: RUF009
    parallel: int = described(
        whole(1, MAX_PARALLEL), "Parallel trials", "How many trials may run at the same time.",
        Section.TRIALS, default=2,
    )  # fmt: skip
    max_failures: int = described(
        whole(1, MAX_TRIALS), "Maximum failures", "So many failed trials in a row pause the sweep.",
        Section.TRIALS, default=3,
    )  # fmt: skip
    job: Mapping[str, Any] | None = described(
        _mapping(), "Job",
        "The fields of a job file, or its path for `trainmaster sweep`; the parameters become hyperparameters. Without "
        "it the trials run elsewhere, and a program asks for settings and tells the values.",
        Section.TRIALS,
    )  # fmt: skip

    @property
    def runs_jobs(self) -> bool:
        return bool(self.job)
