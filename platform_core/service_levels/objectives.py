"""The objectives of the platform. An administrator may set other targets and limits; these are the defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from platform_core.units import DAY_MS, MINUTE_MS, SECOND_MS, format_duration_ms

LOWEST_TARGET, HIGHEST_TARGET = 0.5, 0.99999
LEAST_LIMIT_MS, MOST_LIMIT_MS = SECOND_MS, 7 * DAY_MS
SMALL_JOB = 8  # GPUs, at most
WINDOWS: Mapping[str, int] = {"7d": 7 * DAY_MS, "28d": 28 * DAY_MS}
BUDGET_WINDOW = "28d"


@dataclass(frozen=True, slots=True)
class Objective:
    """`target` of the events are to be good. Raises ValueError for a target or a limit that is out of bounds."""

    code: str
    title: str
    target: float
    counted: str  # the events, as a plural noun
    meaning: str  # when one of them is good; {limit} stands for the limit
    limit_ms: int | None = None
    fixed_limit: bool = False  # it is counted when it happens, so the past cannot be judged by another limit

    def __post_init__(self) -> None:
        if not LOWEST_TARGET <= self.target <= HIGHEST_TARGET:
            low, high = percent(LOWEST_TARGET), percent(HIGHEST_TARGET)
            raise ValueError(f"the target {percent(self.target)} is not between {low} and {high}")
        if self.limit_ms is not None and not LEAST_LIMIT_MS <= self.limit_ms <= MOST_LIMIT_MS:
            low, high = format_duration_ms(LEAST_LIMIT_MS), format_duration_ms(MOST_LIMIT_MS)
            raise ValueError(f"the limit {self.limit_ms} ms is not between {low} and {high}")

    @property
    def sentence(self) -> str:
        limit = "" if self.limit_ms is None else format_duration_ms(self.limit_ms)
        return self.meaning.format(limit=limit)

    @property
    def has_own_limit(self) -> bool:
        return self.limit_ms is not None and not self.fixed_limit


def percent(share: float) -> str:
    """ "99.9 %"; as many digits as tell it from 100 %."""
    return f"{100 * share:.6g} %"


def changed(objective: Objective, target: float | None, limit_ms: int | None) -> Objective:
    """With another target, limit or both. Raises ValueError for what it does not have or what is out of bounds."""
    if limit_ms is not None and not objective.has_own_limit:
        raise ValueError(f"{objective.code} has no limit that can be changed")
    target = objective.target if target is None else target
    return replace(objective, target=target, limit_ms=objective.limit_ms if limit_ms is None else limit_ms)


OBJECTIVES: tuple[Objective, ...] = (
    Objective("first_step_small", f"First step of jobs up to {SMALL_JOB} GPUs", 0.95, "jobs",
              "The first step comes within {limit} of the submission, queue included.", 5 * MINUTE_MS),
    Objective("first_step_large", f"First step of jobs over {SMALL_JOB} GPUs", 0.95, "jobs",
              "The first step comes within {limit} of the submission, queue included.", 30 * MINUTE_MS),
    Objective("utilisation", "Cluster utilisation", 0.70, "slot-hours",
              "Slots are in use; GPU types that no job holds or waits for are left out."),
    Objective("completion", "Jobs without a platform fault", 0.95, "jobs",
              "A job that ends does not fail by a node, GPU, network, disk or launcher."),
    Objective("checkpoints", "Checkpoint success", 0.99, "checkpoints",
              "A checkpoint is complete in the store and can be restored."),
    Objective("recovery", "Recovery success", 0.999, "recoveries",
              "A job that is restarted makes a step again."),
    Objective("recovery_time", "Time to recovery", 0.90, "recoveries",
              "A job that is restarted makes a step within {limit} of its last one.", 10 * MINUTE_MS),
    Objective("availability", "Control plane availability", 0.999, "minutes",
              "The web address answers, a gateway listens and the scheduler finishes rounds."),
    Objective("api_latency", "API latency", 0.99, "requests",
              "A request to the API is answered within {limit}, without a server error.", SECOND_MS, True),
    Objective("alert_delay", "Alert delay", 0.99, "notices",
              "The first notice of an alert is accepted within {limit} of its condition being met.", 2 * MINUTE_MS),
)  # fmt: skip
BY_CODE: Mapping[str, Objective] = {objective.code: objective for objective in OBJECTIVES}
