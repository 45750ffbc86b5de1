"""The corruption fields of a job: how often its ranks compute the same to be compared."""

from __future__ import annotations

from dataclasses import dataclass

from platform_core.jobs.fields import Group, described
from platform_core.jobs.kinds import whole

MAX_STEPS = 10**9
MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class CorruptionCheck:
    """Counts where the script calls `trainmaster.check_corruption`."""

    every_steps: int = described(
        whole(0, MAX_STEPS),
        "Compare ranks every N steps",
        "One micro-batch is computed on all ranks, which must agree. 0: never.",
        Group.SCHEDULING,
        default=0,
    )
    tolerance_ppm: int = described(
        whole(0, MILLION),
        "Tolerated difference (ppm)",
        "In millionths of a value, for GPUs of different types. 0: bit by bit.",
        Group.SCHEDULING,
        default=0,
    )
