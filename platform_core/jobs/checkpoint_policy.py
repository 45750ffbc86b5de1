"""The checkpoint fields of a job: when the script saves, and which checkpoints are kept."""

from __future__ import annotations

from dataclasses import dataclass

from platform_core.jobs.fields import Group, described
from platform_core.jobs.kinds import folder, scaled, whole
from platform_core.units import MINUTE_MS

MAX_STEPS = 10**9
MAX_MINUTES = 720 * 60


@dataclass(frozen=True, slots=True)
class CheckpointPolicy:
    """How often the script is asked to save, and how many checkpoints are kept."""

    interval_steps: int = described(
        whole(0, MAX_STEPS), "Save every N steps", "0: steps do not matter.", Group.CHECKPOINTS, default=0
    )
    interval_ms: int = described(
        scaled(MINUTE_MS, MAX_MINUTES, positive=False),
        "Save every N minutes",
        "0: time does not matter.",
        Group.CHECKPOINTS,
        default=0,
        name="interval_minutes",
    )
    keep_last: int = described(
        whole(1, 1_000), "Checkpoints to keep", "Older ones are deleted.", Group.CHECKPOINTS, default=3
    )
    path: str = described(
        folder(),
        "Checkpoint folder",
        "Where the script saves, relative to its work folder.",
        Group.CHECKPOINTS,
        default="checkpoints",
    )
