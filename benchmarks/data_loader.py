"""Samples a second of `trainmaster.data` beside torch's DataLoader and torchdata's StatefulDataLoader on the same
data, and the time to resume.

python -m benchmarks.data_loader [--samples N] [--rounds R]

JSON lines: `loader` for 0 workers, 2 threads of ours and 2 processes of all, the median of R rounds; `ratio` is to
torch's, `stateful_ratio` to torchdata's. `resume`, the time to the first batch from the middle of an epoch of 10
million samples, and `stateful_ms`, that of StatefulDataLoader in one of STATEFUL_SAMPLES.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import Dataset
from torchdata.stateful_dataloader import StatefulDataLoader

from trainmaster.data import DataLoader

BATCH = 64
STATEFUL_SAMPLES = 1_000_000


class Small(Dataset[torch.Tensor]):
    """Samples of 1 KiB, 128 whole numbers, made of four in memory."""

    def __init__(self, count: int) -> None:
        self._rows = torch.arange(count * 4).reshape(count, 4)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self._rows[index].repeat(32)


class Counted:
    """As many samples as are wanted, without memory for them."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> int:
        return index


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    measure(options.samples, options.rounds)


def measure(samples: int, rounds: int) -> None:
    torch.set_num_threads(1)
    source = Small(samples)
    for workers, processes in ((0, False), (2, False), (2, True)):
        ours = DataLoader(
            source, BATCH, workers=workers, processes=processes, last="keep", name=f"{workers}-{processes}"
        )
        same: dict[str, Any] = {"shuffle": True, "num_workers": workers, "persistent_workers": workers > 0}
        torch_s: TorchLoader[Any] = TorchLoader(source, BATCH, **same)
        stateful: StatefulDataLoader[Any] = StatefulDataLoader(source, BATCH, **same)
        own, other, third = alternated((ours, torch_s, stateful), rounds)
        row = {"measure": "loader", "workers": workers, "ours_in": "processes" if processes else "threads"}
        rates = {"ours_samples_per_s": round(own), "torch_samples_per_s": round(other)}
        ratios = {"ratio": round(own / other, 3), "stateful_ratio": round(own / third, 3)}
        print(json.dumps({**row, **rates, "stateful_samples_per_s": round(third), **ratios}), flush=True)
    times = {"ms": round(resume_ms(), 2), "stateful_ms": round(stateful_resume_ms(), 2)}
    print(json.dumps({"measure": "resume", **times}), flush=True)


def alternated(loaders: Sequence[Iterable[Any]], rounds: int) -> list[float]:
    """The median samples a second of each, after a round that starts the workers."""
    rates: list[list[float]] = [[] for _ in loaders]
    for _ in range(rounds + 1):
        for loader, found in zip(loaders, rates, strict=True):
            began, samples = time.perf_counter(), 0
            for batch in loader:
                samples += len(batch)
            found.append(samples / (time.perf_counter() - began))
    return [statistics.median(found[1:]) for found in rates]


def resume_ms() -> float:
    loader = DataLoader(Counted(10_000_000), BATCH, name="resumed")
    state = {**loader.state_dict(), "position": 5_000_000}
    next(iter(loader))
    began = time.perf_counter()
    loader.load_state_dict(state)
    next(iter(loader))
    return (time.perf_counter() - began) * 1000


def stateful_resume_ms() -> float:
    source: Any = Counted(STATEFUL_SAMPLES)
    before: StatefulDataLoader[Any] = StatefulDataLoader(source, BATCH, shuffle=True)
    batches = iter(before)
    for _ in range(STATEFUL_SAMPLES // BATCH // 2):
        next(batches)
    state = before.state_dict()
    loader: StatefulDataLoader[Any] = StatefulDataLoader(source, BATCH, shuffle=True)
    began = time.perf_counter()
    loader.load_state_dict(state)
    next(iter(loader))
    return (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    main()
