"""Seconds that one operator takes on one GPU: a roofline of matrix products and of memory traffic."""

from __future__ import annotations

from functools import lru_cache
from math import ceil

from platform_core.parallelism.hardware import Gpu

# Tiles of cuBLAS and CUTLASS, and the share of the best rate that each reaches: a smaller tile loads more
# bytes for one product (NVIDIA, "Matrix Multiplication Background User's Guide", sections 3.1 and 4.2).
TILES = ((256, 128, 1.0), (128, 256, 1.0), (128, 128, 0.92), (128, 64, 0.75), (64, 64, 0.6))
SPLITS = (1, 2, 4, 8)  # of the inner dimension, where the tiles alone do not fill the GPU
RAMP = 128  # columns of the inner dimension that filling and emptying the pipeline costs
STREAM = 0.85  # of the memory bandwidth that an elementwise kernel reaches
START = 3e-6  # seconds from one kernel to the next on the device


@lru_cache(maxsize=65_536)
def matmul(gpu: Gpu, rows: int, columns: int, inner: int, batch: int = 1, fp8: bool = False) -> float:
    """Seconds of `batch` products of (rows x inner) by (inner x columns): tiles in waves over the
    multiprocessors, and never less than its traffic takes."""
    eight_bits = fp8 and gpu.fp8_rate > 0
    peak = gpu.fp8_rate * gpu.matmul_fp8 if eight_bits else gpu.bf16_rate * gpu.matmul
    rate = peak / gpu.multiprocessors
    best = min(
        ceil(ceil(rows / high) * ceil(columns / wide) * batch * split / gpu.multiprocessors)
        * (2 * high * wide * (inner / split + RAMP) / (rate * share))
        for high, wide, share in TILES
        for split in SPLITS
        if split == 1 or inner >= 1024 * split
    )
    size = 1 if eight_bits else 2
    traffic = batch * (size * inner * (rows + columns) + 2 * rows * columns)
    return START + max(best, traffic / (gpu.memory_rate * STREAM))


def stream(gpu: Gpu, traffic: float, kernels: int = 1) -> float:
    """Seconds of elementwise kernels that read and write `traffic` bytes."""
    return kernels * START + traffic / (gpu.memory_rate * STREAM)


FLASH_BACKWARD = (
    0.85  # of the forward rate: 63 % of the peak against 72 % (Dao 2023, arXiv 2307.08691, section 4.1)
)


def flash(gpu: Gpu, flops: float, traffic: float, backward: bool) -> float:
    rate = gpu.bf16_rate * gpu.attention * (FLASH_BACKWARD if backward else 1.0)
    return START + max(flops / rate, traffic / (gpu.memory_rate * STREAM))
