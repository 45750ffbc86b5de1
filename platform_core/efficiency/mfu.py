"""Model FLOPs utilisation: the FLOPs of the model over what the GPUs could have done in that time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum


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


class Missing(IntEnum):
    """Why a rank has no MFU, as the series `flops_missing` has it."""

    COMPILED = 1
    OPERATOR = 2
    IMPOSSIBLE = 3


_WHY = {
    Missing.COMPILED: "torch.compile hides the operations; give flops_per_step to init()",
    Missing.OPERATOR: "torch has no formula for an operator of the model; give flops_per_step to init()",
    Missing.IMPOSSIBLE: "the count exceeds the hardware",
}


def mfu(flops_per_second: float, peak: float | None) -> float | None:
    """Of one GPU; None where its peak is not known."""
    return flops_per_second / peak if peak else None


def believable(share: float | None) -> float | None:
    """None for more than a GPU can do: then the count is wrong, not the GPU fast."""
    return share if share is not None and 0 <= share <= 1 else None


def why_missing(codes: Iterable[float | None], gpu: str, *, has_peak: bool) -> str:
    """A sentence for the place of the number. `codes`: of the ranks."""
    known = {round(code) for code in codes if code is not None}
    why = next((sentence for code, sentence in _WHY.items() if code in known), "")
    if not why and not has_peak:
        why = f"no peak is known for {gpu or 'its device'}"
    return f"not measured: {why}" if why else "not measured"
