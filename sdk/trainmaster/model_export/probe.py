"""A process of its own that loads one export, without the code of the model, runs the samples and measures itself.

`python -m trainmaster.model_export.probe FORMAT FILE ROWS.npy ANSWER.npz REPEATS`
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from platform_core.registry.exports import Format
from platform_core.serving.runtimes import RuntimeName
from platform_core.units import plural
from trainmaster.environment import launcher_environment
from trainmaster.serving.loading import load

Predict = Callable[[Any], Any]  # rows → outputs
_RUNTIMES = {
    Format.TORCHSCRIPT: RuntimeName.TORCHSCRIPT,
    Format.TORCH_EXPORT: RuntimeName.EXPORTED,
    Format.ONNX: RuntimeName.ONNX,
}
WARM_UP = 5
MODULE = "trainmaster.model_export.probe"
MOST_SECONDS = 1800  # that loading and measuring one export may take


def outputs(predict: Predict, rows: Any) -> Any:
    """Of all rows as one batch, then of the first alone: a batch size that was written into an export is noticed."""
    return np.concatenate([np.asarray(predict(rows)), np.asarray(predict(rows[:1]))])


def latencies_ms(predict: Predict, rows: Any, repeats: int) -> list[float]:
    """Of one row after the other."""
    measured = []
    for number in range(WARM_UP + repeats):
        row = rows[number % len(rows)][None]
        begun = time.perf_counter()
        predict(row)
        measured.append((time.perf_counter() - begun) * 1000)
    return measured[WARM_UP:]


def run(rows: Any, path: Path, format: str, repeats: int) -> tuple[Any, list[float], int]:
    """Outputs, latencies and memory of this file in a process of its own. Raises RuntimeError with its last words."""
    with tempfile.TemporaryDirectory() as place:
        given, answer = Path(place) / "rows.npy", Path(place) / "answer.npz"
        np.save(given, rows)
        files = [str(path), str(given), str(answer)]
        command = [sys.executable, "-m", MODULE, format, *files, str(repeats)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=MOST_SECONDS, check=False,
                env=launcher_environment() | {"PYTHONPATH": ":".join(filter(None, sys.path))},
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise RuntimeError(f"it took more than {MOST_SECONDS} s") from error
        if done.returncode:
            raise RuntimeError((done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1])
        found = np.load(answer)
        return found["outputs"], found["latencies_ms"].tolist(), int(found["memory_bytes"])


def device() -> str:
    """Where a runtime of this machine computes."""
    try:
        import torch
    except ImportError:
        return f"cpu, {os.cpu_count()} cores"
    if torch.cuda.is_available():
        return str(torch.cuda.get_device_name())
    return f"cpu, {plural(torch.get_num_threads(), 'thread')}"


def main(format: str, file: Path, rows_file: Path, answer: Path, repeats: int) -> None:
    rows = np.load(rows_file)
    predict = _runtime(format, file)
    found = outputs(predict, rows)
    latencies = latencies_ms(predict, rows, repeats)
    np.savez(answer, outputs=found, latencies_ms=latencies, memory_bytes=_peak_bytes())


def _runtime(format: str, file: Path) -> Predict:
    """As the model server loads and runs it."""
    runtime = load(file.parent, _RUNTIMES[Format(format)], file.name)
    return lambda rows: np.stack(list(runtime.predict([runtime.prepare(row) for row in rows])))


def _peak_bytes() -> int:
    """On the GPU where it runs there, else of this process; that of a parent is no part of it."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        return int(torch.cuda.max_memory_reserved())
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) << 10
    unit = 1 if sys.platform == "darwin" else 1 << 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4]), int(sys.argv[5]))
