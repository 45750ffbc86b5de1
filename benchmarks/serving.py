"""What serving costs and gains, beside the bare model and servers that do the same: JSON lines, all from one run.

python -m benchmarks.serving [--only PHASE …] [--seconds S] [--repeats R]

servers     an MLP 1024-4096-4096-10 of PyTorch on one thread, its requests as JSON from one load generator: `bare` (the
            model alone: one row, and the rows a second of its best batch), `c1` (one request at a time: ours and an
            unbatched server) and `c64` (64 at once: the bare batch, ours, FastAPI with a 30-line micro-batcher,
            LitServe). Systems take turns, the others stopped by a signal, and each figure is from the best of R turns
live        a platform with two nodes: `router` and `grpc`, what the router adds to the answer of a replica, and
            `rollback`, a canary that is rolled back under load: requests lost, seconds until its last answer
faults      two replicas behind two routers: `fault`, what callers lose when a replica, agent, gateway or router ends
autoscaler  the plan of production over a week of simulated traffic: `autoscaler`, beside fixed and reactive replicas

The peers are installed on demand into .venv/serving (tools/serving_venv.py).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.rig import autoscaling, serving_faults, serving_live
from benchmarks.rig.serving_load import Load, drive
from benchmarks.rig.serving_systems import System, systems
from tools import serving_venv

PHASES = ("servers", "live", "faults", "autoscaler")
TOGETHER = ("bare", "ours", "fastapi", "litserve")
MAKE = "import sys; from benchmarks.rig.serving_systems import make_model; make_model(sys.argv[1])"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=PHASES, default=PHASES)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each turn")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    run: dict[str, Callable[[], None]] = {
        "servers": lambda: servers(options.seconds, options.repeats),
        "live": lambda: live(options.seconds, options.repeats),
        "faults": faults,
        "autoscaler": autoscaler,
    }
    for phase in options.only:
        run[phase]()


def servers(seconds: float, repeats: int) -> None:
    peers = serving_venv.ensure()
    with tempfile.TemporaryDirectory(prefix="serving-") as folder:
        subprocess.run([sys.executable, "-c", MAKE, folder], check=True)
        with systems([*TOGETHER, "unbatched"], Path(folder), peers) as started:
            one = turns(started, ("ours", "unbatched"), 1, seconds, repeats)
            ours, plain = one["ours"], one["unbatched"]
            show({"measure": "c1", "ours_p50_ms": ours.p50_ms, "unbatched_p50_ms": plain.p50_ms,
                  "ratio": round(ours.p50_ms / plain.p50_ms, 3)})  # fmt: skip
            together = turns(started, TOGETHER, 64, seconds, repeats)
            ceiling = together["bare"].per_second
            for name, load in together.items():
                show({"measure": "c64", "system": name, "requests_per_s": load.per_second, "p50_ms": load.p50_ms,
                      "p99_ms": load.p99_ms, "failed": load.failed,
                      "of_ceiling": round(load.per_second / ceiling, 3)})  # fmt: skip


def turns(
    started: dict[str, System], names: tuple[str, ...], at_once: int, seconds: float, repeats: int
) -> dict[str, Load]:
    """The best turn of each system; a busy moment of the machine meets all of them."""
    best: dict[str, Load] = {}
    for _ in range(repeats):
        for name in names:
            load = measure(started[name], at_once, seconds)
            if name not in best or better(load, best[name], at_once):
                best[name] = load
    return best


def better(load: Load, other: Load, at_once: int) -> bool:
    return load.p50_ms < other.p50_ms if at_once == 1 else load.per_second > other.per_second


def measure(system: System, at_once: int, seconds: float) -> Load:
    if system.name == "bare":
        figures = system.bare(seconds / 3)
        show({"measure": "bare", "one_row_ms": figures["one_row_ms"], "batch": figures["batch"],
              "rows_per_s": figures["rows_per_s"]})  # fmt: skip
        return Load(figures["rows_per_s"], figures["p50_ms"], figures["p99_ms"], 0)
    with system.running() as address:
        asyncio.run(drive(address, at_once, min(seconds, 1.0)))  # it warms up
        return asyncio.run(drive(address, at_once, seconds))


def live(seconds: float, repeats: int) -> None:
    for line in serving_live.router_and_rollback(seconds, repeats):
        show(line)


def faults() -> None:
    for line in serving_faults.faults():
        show(line)


def autoscaler() -> None:
    for line in autoscaling.compare():
        show(line)


def show(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
