"""What `trainmaster.log()` costs a training loop, beside the one write to a file that it cannot do without.

python -m benchmarks.sdk_log [--calls N] [--values V] [--rate R]

One JSON line for each way, in microseconds a call: `write` (one write of such a line), `kept` (a run without a login),
`measured` (the part of a call that measures the loop),
`sent` (a run whose thread sends to a platform on this machine), `away` (its platform does not answer). R calls a second
with the processor free between them, as in a training loop; 0: one after the other. The bound is 50 microseconds.

Then a line `sdk_step`: steps of a small model in PyTorch, bare and with `log()` and all that measures their efficiency,
in pairs of short turns whose order changes; milliseconds of the processor of each, and the overhead in percent: the
median of the pairs, and the bounds between which it lies with 95 % confidence. The bound is 1 %.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

BOUND_US = 50.0
WAYS = ("write", "measured", "kept", "sent", "away")
BOUND_PERCENT = 1.0
PAIRS, STEPS = 500, 4  # of the comparison of steps, in each turn of a pair
NOT_COUNTED = 20  # pairs, while caches and threads warm up and the FLOPs of a step are counted once


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--values", type=int, default=4, help="metrics in a call")
    parser.add_argument("--rate", type=int, default=1_000, help="calls a second; 0: as fast as they return")
    parser.add_argument(
        "--way", choices=(*WAYS, "step"), help="measure in this process; used by the benchmark itself"
    )
    parser.add_argument("--sink", action="store_true", help="be the platform; used by the benchmark itself")
    options = parser.parse_args()
    if options.sink:
        serve()
    elif options.way:
        step = options.way == "step"
        found = overhead() if step else measure(options.way, options.calls, options.values, options.rate)
        print(json.dumps(found), file=sys.stderr)
    else:
        with platform() as url:
            for way in WAYS:
                print(json.dumps(measured(way, url, options)), flush=True)
        print(json.dumps(measured("step", "", options)), flush=True)


def measured(way: str, url: str, options: argparse.Namespace) -> dict[str, object]:
    """In a process of its own, in a folder of its own."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path), "HOME": "/nowhere"}
    if way in ("sent", "away"):
        environment["TRAINMASTER_URL"] = url if way == "sent" else "http://127.0.0.1:9"
        environment["TRAINMASTER_TOKEN"] = "tm_benchmark"
    arguments = [f"--{name}={getattr(options, name)}" for name in ("calls", "values", "rate")]
    with tempfile.TemporaryDirectory(prefix="sdk-log-") as folder:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.sdk_log", f"--way={way}", *arguments],
            cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
    lines = [line for line in done.stderr.splitlines() if line.startswith("{")]
    result: dict[str, object] = json.loads(lines[0])
    return result


def measure(way: str, calls: int, values: int, rate: int) -> dict[str, object]:
    metrics = {f"train/metric{number}": number / 7 for number in range(values)}
    with logging(way) as log:
        times, began = [], time.perf_counter()
        for step in range(calls):
            before = time.perf_counter_ns()
            log(step, metrics)
            times.append((time.perf_counter_ns() - before) / 1000)
            if rate and (left := began + (step + 1) / rate - time.perf_counter()) > 0:
                time.sleep(left)
    percentiles = statistics.quantiles(times, n=100)
    return {
        "measure": "sdk_log", "way": way, "calls": calls, "values": values, "rate": rate,
        "p50_us": round(percentiles[49], 1), "p99_us": round(percentiles[98], 1), "max_us": round(max(times), 1),
        "bound_us": BOUND_US,
    }  # fmt: skip


def overhead() -> dict[str, object]:
    """Bare and measured steps take turns, so that what else the machine does meets both alike."""
    import torch

    import trainmaster

    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 512))
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-4)
    data = torch.utils.data.TensorDataset(torch.randn(PAIRS * STEPS * 32, 512))

    def turn(batches: Iterator[list[torch.Tensor]], log: Callable[[int, float], None], first: int) -> float:
        """Mean milliseconds of a step, of all threads of this process, whatever else the machine does."""
        begun = time.process_time()
        for step in range(first, first + STEPS):
            (batch,) = next(batches)
            loss = torch.nn.functional.mse_loss(model(batch), batch)
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            log(step, loss.item())
        return (time.process_time() - begun) * 1000 / STEPS

    pairs = []
    bare = iter(torch.utils.data.DataLoader(data, batch_size=32))
    with trainmaster.init(name="step", team="vision", experiment="benchmark") as run:
        watched = iter(torch.utils.data.DataLoader(data, batch_size=32))
        ways = {
            False: lambda first: turn(bare, lambda step, loss: None, first),
            True: lambda first: turn(watched, lambda step, loss: run.log(step, {"train/loss": loss}), first),
        }
        for pair in range(PAIRS):
            measured_first = bool(pair % 2)
            took = {way: ways[way](pair * STEPS) for way in (measured_first, not measured_first)}
            pairs.append((took[False], took[True]))
    pairs = pairs[NOT_COUNTED:]
    ratios = sorted(100 * (measured / alone - 1) for alone, measured in pairs)
    low, high = confidence(len(ratios))
    bare_ms, measured_ms = (statistics.median(column) for column in zip(*pairs, strict=True))
    return {
        "measure": "sdk_step", "pairs": len(pairs), "bare_ms": round(bare_ms, 3), "measured_ms": round(measured_ms, 3),
        "overhead_percent": round(statistics.median(ratios), 2), "low_percent": round(ratios[low], 2),
        "high_percent": round(ratios[high], 2), "bound_percent": BOUND_PERCENT,
    }  # fmt: skip


def confidence(count: int) -> tuple[int, int]:
    """Ranks of the values, in order, between which the median of their distribution lies with 95 %: the normal
    approximation of the binomial distribution (Conover, Practical Nonparametric Statistics, 3.2)."""
    reach = 1.96 * count**0.5 / 2
    return max(0, int(count / 2 - reach)), min(count - 1, int(count / 2 + reach))


@contextlib.contextmanager
def logging(way: str) -> Iterator[Callable[[int, dict[str, float]], None]]:
    if way == "write":
        with open("line", "ab", buffering=0) as file:
            line = b"x" * 160 + b"\n"

            def write(step: int, metrics: dict[str, float]) -> None:
                file.write(line)

            yield write
        return
    import trainmaster

    with trainmaster.init(name=way, team="vision", experiment="benchmark") as run:
        yield run.log if way != "measured" else lambda step, metrics: run.measures.step(step)


@contextlib.contextmanager
def platform() -> Iterator[str]:
    sink = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.sdk_log", "--sink"], stdout=subprocess.PIPE, text=True,
        cwd=Path(__file__).parents[1],
    )  # fmt: skip
    assert sink.stdout is not None
    try:
        yield sink.stdout.readline().strip()
    finally:
        sink.kill()
        sink.wait()


class Sink(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *arguments: object) -> None:
        return


def serve() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Sink)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
