"""The retention fields of a job: which checkpoints stay beside the newest."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from platform_core.jobs.fields import Group, described
from platform_core.jobs.kinds import choice, line, scaled, whole
from platform_core.units import DAY_MS

MAX_DAYS = 3_650


class Direction(StrEnum):
    LOWEST = "lowest"
    HIGHEST = "highest"


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """Without it only the newest stay."""

    best: int = described(
        whole(0, 1_000),
        "Best checkpoints to keep",
        "By the metric below; 0: none.",
        Group.CHECKPOINTS,
        default=0,
    )
    metric: str = described(
        line(200),
        "Metric of the best",
        "As the script passes it to save_checkpoint, such as loss.",
        Group.CHECKPOINTS,
        default="",
    )
    direction: Direction = described(  # noqa: RUF009
        choice(Direction),
        "Best is",
        "The lowest or the highest value.",
        Group.CHECKPOINTS,
        default=Direction.LOWEST,
    )
    every_hours: int = described(
        whole(0, 10_000),
        "Keep one every N hours",
        "The first one of each stretch stays; 0: none.",
        Group.CHECKPOINTS,
        default=0,
    )
    max_age_ms: int = described(
        scaled(DAY_MS, MAX_DAYS, positive=False),
        "Keep them for N days",
        "The best and the hourly ones go when they are older. 0: they stay.",
        Group.CHECKPOINTS,
        default=0,
        name="max_age_days",
    )
