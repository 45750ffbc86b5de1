"""Peaks by the names that drivers and agents give, and the targets of the MFU."""

import pytest

from platform_core.efficiency.mfu import Target, mfu, target
from platform_core.efficiency.peaks import Precision, peak
from platform_core.parallelism.hardware import GPUS


@pytest.mark.parametrize(
    ("name", "precision", "teraflops"),
    [
        ("NVIDIA H100 80GB HBM3", Precision.HALF, 989.4),
        ("h100-80gb", Precision.FP8, 1978.9),
        ("NVIDIA H100 PCIe", Precision.HALF, 756),
        ("NVIDIA A100-SXM4-80GB", Precision.TF32, 156),
        ("a100-40gb", Precision.FP8, 312),  # it has none and computes in 16 bits
        ("Tesla V100-SXM2-32GB", Precision.TF32, 15.7),  # likewise
    ],
)
def test_a_peak_is_found_by_any_name_of_the_gpu(name: str, precision: Precision, teraflops: float) -> None:
    found = peak(name, precision)
    assert found is not None
    assert found / 1e12 == pytest.approx(teraflops)


def test_no_peak_is_invented_for_other_devices() -> None:
    assert peak("cpu", Precision.HALF) is None
    assert peak("", Precision.FP32) is None
    assert mfu(1e12, None) is None


def test_every_gpu_of_the_planner_has_a_peak_in_every_precision() -> None:
    for name in GPUS:
        rates = [peak(name, precision) for precision in Precision]
        assert rates == sorted(rate for rate in rates if rate is not None)  # fewer bits are never slower


def test_150_of_312_teraflops_are_48_percent() -> None:
    assert mfu(150e12, peak("a100-80gb", Precision.HALF)) == pytest.approx(0.48, abs=0.001)


@pytest.mark.parametrize(
    ("gpus", "expected"),
    [(1, Target(0.55, 0.65)), (8, Target(0.5, 0.6)), (9, Target(0.45, 0.55)), (1024, Target(0.35, 0.45))],
)
def test_the_target_falls_with_the_size(gpus: int, expected: Target) -> None:
    assert target(gpus) == expected
