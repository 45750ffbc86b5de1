"""Model FLOPs utilisation: the FLOPs of the model over what the GPUs could have done in that time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """What a well-tuned run of this size reaches."""

    low: float
    high: float


# By the number of GPUs up to which a line counts; what lies between two sizes is held to the larger one.
_TARGETS = (
    (1, Target(0.55, 0.65)),
    (8, Target(0.50, 0.60)),
    (64, Target(0.45, 0.55)),
)
_LARGEST = Target(0.35, 0.45)  # 1,024 GPUs and whatever is above 64


def target(gpus: int) -> Target:
    return next((found for most, found in _TARGETS if gpus <= most), _LARGEST)


def mfu(flops_per_second: float, peak: float | None) -> float | None:
    """Of one GPU; None where its peak is not known."""
    return flops_per_second / peak if peak else None
