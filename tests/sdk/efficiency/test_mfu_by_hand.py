"""The FLOP/s that the SDK records beside those by hand, on this machine's CPU; on a GPU the same command shows MFU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def test_the_recorded_mfu_is_the_one_by_hand() -> None:
    command = [
        sys.executable,
        "-m",
        "benchmarks.mfu",
        "--seconds=12",
        "--width=64",
        "--batch=64",
        "--layers=3",
    ]
    done = subprocess.run(
        [*command, "--device=cpu", "--peak=1e12"], cwd=ROOT, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr[-2000:]
    [found] = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"measure": "mfu"')]
    assert found["windows"] >= 1
    assert found["sdk_flops_per_step"] == pytest.approx(found["by_hand_flops_per_step"], rel=1e-4)
    assert (
        found["sdk_flops_per_second"] > 0
    )  # how near to the one by hand, the benchmark tells on a quiet machine
    assert found["by_hand_mfu"] == pytest.approx(found["by_hand_flops_per_second"] / 1e12)
    assert found["sdk_mfu"] is None  # of a CPU no peak is known
