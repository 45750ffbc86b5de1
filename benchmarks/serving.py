"""What the model server costs and gains, beside the bare model and servers that do the same.

python -m benchmarks.serving [--seconds S] [--repeats R] [--peers PYTHON]

An MLP 1024-4096-4096-10 of PyTorch on one thread, its requests as JSON from one load generator. Lines: `bare` (the
model alone: one row, and the rows a second of its best batch), `c1` (one request at a time: ours and an unbatched
server) and `c64` (64 at once: each system). PYTHON is an interpreter of an environment with fastapi and litserve, whose
servers are then measured in the same run; without it they are left out. Systems take turns, and each figure is the best
of R turns.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.rig.serving_load import Load, Server, bare, drive, serve

PEERS = ("fastapi", "litserve")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=5.0, help="of each turn")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--peers", default="", help="interpreter of an environment with fastapi and litserve")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="serving-") as folder:
        model = Path(folder)
        subprocess.run([sys.executable, "-c", f"from benchmarks.rig.serving_load import make_model; "
                        f"make_model({folder!r})"], check=True)  # fmt: skip
        alone = bare(folder)
        show({"measure": "bare", **alone})
        names = ["ours", "unbatched", *(PEERS if options.peers else ())]
        one = turns([name for name in names if name not in PEERS], model, options, at_once=1)
        ours, plain = one["ours"], one["unbatched"]
        show({"measure": "c1", "ours_p50_ms": ours.p50_ms, "unbatched_p50_ms": plain.p50_ms,
              "ratio": round(ours.p50_ms / plain.p50_ms, 3)})  # fmt: skip
        for name, load in turns(names, model, options, at_once=64).items():
            show({"measure": "c64", "system": name, "requests_per_s": load.per_second, "p50_ms": load.p50_ms,
                  "p99_ms": load.p99_ms, "of_ceiling": round(load.per_second / alone["rows_per_s"], 3)})  # fmt: skip


def turns(names: list[str], model: Path, options: argparse.Namespace, at_once: int) -> dict[str, Load]:
    """The best turn of each system; they take turns, so that a busy moment of the machine meets all of them."""
    best: dict[str, Load] = {}
    for _ in range(options.repeats):
        for name in names:
            with serve(name, model, options.peers) as server:
                load = measure(server, at_once, options.seconds)
            if name not in best or better(load, best[name], at_once):
                best[name] = load
    return best


def better(load: Load, other: Load, at_once: int) -> bool:
    return load.p50_ms < other.p50_ms if at_once == 1 else load.per_second > other.per_second


def measure(server: Server, at_once: int, seconds: float) -> Load:
    asyncio.run(drive(server, at_once, min(seconds, 1.0)))  # it warms up
    return asyncio.run(drive(server, at_once, seconds))


def show(line: dict[str, object]) -> None:
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
