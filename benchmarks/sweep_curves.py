"""Records the learning curves that `python -m benchmarks.sweeps` searches: bytelm in 200 settings, on one core.

    python -m benchmarks.sweep_curves [--out benchmarks/data/bytelm_curves.json]

The settings are a full factorial (8 x 5 x 5), so that a lookup needs no interpolation. Each setting sees the same
number of bytes and is evaluated 27 times on the way; `seconds` is the CPU time of its training. A repeated start goes
on where the file ends.
"""

import argparse
import itertools
import json
import statistics
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

BYTELM = Path(__file__).parents[1] / "examples" / "bytelm"
CURVES = Path(__file__).parent / "data" / "bytelm_curves.json"
SPACE: dict[str, list[Any]] = {
    "lr": [3e-4, 7e-4, 1.5e-3, 3e-3, 7e-3, 1.5e-2, 3e-2, 7e-2],
    "embedding_lr": [3e-3, 1e-2, 3e-2, 1e-1, 3e-1],
    "batch": [2, 4, 8, 16, 32],
}
EVALUATIONS = 27
SEQUENCES = 3456  # of all steps together: a multiple of 27 and of the largest batch
CONTEXT = 64


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--out", type=Path, default=CURVES)
    out: Path = arguments.parse_args().out
    torch.set_num_threads(1)
    sys.path.insert(0, str(BYTELM))
    settings = [dict(zip(SPACE, values, strict=True)) for values in itertools.product(*SPACE.values())]
    recorded: list[dict[str, Any]] = json.loads(out.read_text())["trials"] if out.exists() else []
    with tempfile.TemporaryDirectory() as folder:
        for setting in settings[len(recorded) :]:
            recorded.append(record(setting, Path(folder, "data")))
            write(out, recorded)
            last = recorded[-1]
            print(json.dumps({**setting, "last": last["curve"][-1], "seconds": last["seconds"]}), flush=True)


def record(setting: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Trains one setting; `curve` has the held-out bits per byte after each twenty-seventh of the bytes."""
    prepare, train = import_module("prepare"), import_module("train")
    steps = SEQUENCES // setting["batch"]
    config = train.Config(
        steps=steps, context=CONTEXT, layers=2, width=48, heads=4, warmup=max(1, steps // 20), **setting
    )
    torch.manual_seed(config.seed)
    data, device = prepare.collect(folder), torch.device("cpu")
    training, heldout = (train.Windows(data / part, CONTEXT, device) for part in ("train", "heldout"))
    model = train.ByteGPT(config)
    optimizer = train.optimizer_of(model, config)
    curve: list[float] = []
    seconds: list[float] = []
    for step in range(1, steps + 1):
        began = time.process_time()
        train.set_rate(optimizer, step, config)
        loss = train.loss_of(model, training.draw(config.seed * 1_000_003 + step, config.batch, 0, 1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.process_time() - began)
        while len(curve) < step * EVALUATIONS // steps:
            curve.append(round(train.bits_per_byte(model, heldout, 64, 0, 1), 4))
    # The median step: other programs on the machine slow some steps down.
    return {"setting": setting, "seconds": round(statistics.median(seconds) * steps, 3), "curve": curve}


def write(out: Path, trials: list[dict[str, Any]]) -> None:
    out.parent.mkdir(exist_ok=True)
    lines = ",\n".join(json.dumps(trial, separators=(",", ":")) for trial in trials)
    out.write_text(f'{{"space": {json.dumps(SPACE)},\n"trials": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
