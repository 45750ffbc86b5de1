"""The MFU that the platform shows beside the value by hand: `python -m benchmarks.mfu [--seconds S] [--width W] …`.

Trains a stack of square matrices in bfloat16 with the SDK recording alone, without a platform, on a GPU where there is
one, and prints one JSON line each:

mfu       FLOP/s and MFU as the SDK recorded them (median of its windows of about five seconds, the first left out),
          beside 2·m·n·k a product counted by hand, times steps, over seconds, over the peak
readings  in the middle of the training what the agent reads of the GPU (NVML, and its profiling metrics where the GPU
          has them) beside `nvidia-smi --query-gpu`

A step is 3·L - 1 products of batch × width by width × width for L layers: one forward, two backward, and none for the
gradient of the input. `--peak` gives FLOP/s where the table of peaks has none, as for a CPU.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

import trainmaster
from agent.probes.gpus import Nvml
from platform_core.efficiency import peaks
from platform_core.efficiency.peaks import Precision

LOG_EVERY = 10
SMI_FIELDS = "utilization.gpu,memory.used,power.draw,temperature.gpu"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=40, help="of training that is measured")
    parser.add_argument("--width", type=int, default=8192)
    parser.add_argument("--batch", type=int, default=8192)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--peak", type=float, help="FLOP/s; the data sheet's by default")
    options = parser.parse_args()
    name = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    peak = options.peak or peaks.peak(name, Precision.HALF)
    with tempfile.TemporaryDirectory(prefix="mfu-") as folder:
        os.chdir(folder)
        steps, seconds, spool = train(options)
        recorded = windows(spool)
    flops_per_step = 2 * options.batch * options.width**2 * (3 * options.layers - 1)
    by_hand = flops_per_step * steps / seconds
    sdk = median(recorded, "flops_per_second")
    counted = [
        each["flops_per_second"] * each["step_seconds"] for each in recorded if "flops_per_second" in each
    ]
    print(
        json.dumps(
            {
                "measure": "mfu", "device": name, "torch": torch.__version__, "steps": steps,
                "seconds": round(seconds, 2), "windows": len(recorded), "peak_flops_per_second": peak,
                "by_hand_flops_per_step": flops_per_step,
                "sdk_flops_per_step": statistics.median(counted) if counted else None,
                "by_hand_flops_per_second": by_hand, "sdk_flops_per_second": sdk,
                "by_hand_mfu": by_hand / peak if peak else None, "sdk_mfu": median(recorded, "mfu"),
                "difference_percent": round(100 * (sdk / by_hand - 1), 3) if sdk else None,
            }
        )
    )  # fmt: skip


def train(options: argparse.Namespace) -> tuple[int, float, Path]:
    """Steps and seconds of what was measured, and where the SDK wrote its lines."""
    torch.manual_seed(1)
    layers = (
        torch.nn.Linear(options.width, options.width, bias=False, device=options.device, dtype=torch.bfloat16)
        for _ in range(options.layers)
    )
    model = torch.nn.Sequential(*layers)
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-6)
    given = torch.randn(options.batch, options.width, device=options.device, dtype=torch.bfloat16)

    def step() -> torch.Tensor:
        optimiser.zero_grad()
        loss: torch.Tensor = model(given).square().mean()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        return loss.detach()

    for _ in range(LOG_EVERY):
        step()
    with trainmaster.init(name="mfu", team="vision", experiment="benchmark") as run:
        steps, has_read = 0, options.device != "cuda"
        run.log(0, {"train/loss": step().item()})
        began = time.perf_counter()
        while (seconds := time.perf_counter() - began) < options.seconds:
            loss = step()
            for _ in range(LOG_EVERY - 1):
                loss = step()
            steps += LOG_EVERY
            run.log(steps, {"train/loss": loss.item()})  # item() waits for the GPU
            if not has_read and seconds > options.seconds / 2:
                has_read = True
                print(json.dumps(readings(step)), flush=True)
                began += time.perf_counter() - began - seconds
        seconds = time.perf_counter() - began
        assert run.setting.spool is not None
        return steps, seconds, run.setting.spool


def windows(spool: Path) -> list[dict[str, float]]:
    lines = [json.loads(line) for line in spool.read_text().splitlines()]
    values = [line["values"] for line in lines if line.get("kind") == "system"]
    return [{name.split("/")[-1]: value for name, value in each.items()} for each in values][1:]


def median(recorded: list[dict[str, float]], name: str) -> float | None:
    found = [each[name] for each in recorded if name in each]
    return statistics.median(found) if found else None


def readings(step: Any) -> dict[str, Any]:
    """Both while the GPU has steps to do: the first of the two readings of NVML only begins its profiling."""
    nvml = Nvml.open()
    assert nvml is not None
    nvml.read(0)
    for _ in range(LOG_EVERY * 4):
        step()
    telemetry = nvml.read(0)
    asked = ["nvidia-smi", f"--query-gpu={SMI_FIELDS}", "--format=csv,noheader,nounits", "--id=0"]
    answer = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    torch.cuda.synchronize()
    return {
        "measure": "readings",
        "agent": {
            "utilisation": telemetry.utilisation, "memory_used_bytes": telemetry.memory_used_bytes,
            "temperature_celsius": telemetry.temperature_celsius, **telemetry.readings,
        },
        "nvidia_smi": dict(zip(SMI_FIELDS.split(","), map(float, answer.split(",")), strict=True)),
    }  # fmt: skip


if __name__ == "__main__":
    main()
