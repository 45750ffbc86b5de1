"""The peak of a GPU by precision, from the data sheets of its maker, dense (no sparsity)."""

from __future__ import annotations

import re
from enum import StrEnum

from platform_core.parallelism.hardware import GPUS


class Precision(StrEnum):
    """Of the operands of a matrix product."""

    FP32 = "fp32"
    TF32 = "tf32"
    HALF = "half"  # bfloat16 and float16 have one rate
    FP8 = "fp8"


# FP32 outside the tensor cores, TF32 and 16 bits inside them, in FLOP/s; 0: has none. The same data sheets as
# platform_core/parallelism/hardware.py: V100 2020, A100 June 2021, L40S 2023, H100 2023, H200 2024, HGX B200 2025.
_SINGLE = {
    "v100": (15.7e12, 0.0),
    "a100": (19.5e12, 156e12),
    "l40s": (91.6e12, 183e12),
    "h100": (67e12, 494.7e12),
    "h200": (67e12, 494.7e12),
    "b200": (75e12, 1125e12),
}
# Cards with the chip of another and less of its clock or units; H100 data sheet, 2023: PCIe and NVL.
_SHARE_OF_H100 = {"pcie": 756 / 989.4, "nvl": 835 / 989.4}


def peak(gpu: str, precision: Precision) -> float | None:
    """FLOP/s of one GPU, by the name that its driver or an agent gives it; None where no source states it.

    A GPU without TF32 or FP8 computes such a product in FP32 or in 16 bits.
    """
    words = re.findall(r"[a-z0-9]+", gpu.lower())
    model = next((word for word in words if word in _SINGLE), "")
    chip = next((known for name, known in GPUS.items() if name.startswith(f"{model}-")), None)
    if not model or chip is None:
        return None
    fp32, tf32 = _SINGLE[model]
    rates = {
        Precision.FP32: fp32,
        Precision.TF32: tf32 or fp32,
        Precision.HALF: chip.bf16_rate,
        Precision.FP8: chip.fp8_rate or chip.bf16_rate,
    }
    variant = next((share for word, share in _SHARE_OF_H100.items() if word in words), 1.0)
    return rates[precision] * (variant if model == "h100" else 1.0)
