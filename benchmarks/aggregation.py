"""One model under every way of aggregation: `python -m benchmarks.aggregation`.

Equal samples and equal workers, one of them slow. Where network namespaces are allowed each process has a host of its
own behind a shaped link; elsewhere they share the loopback, and the answer says so.
"""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import click

from benchmarks.aggregation_figure import losses
from benchmarks.rig import network
from platform_core.aggregation.cost import Way, Workers, cost

MODULE = "benchmarks.aggregation"


@dataclass(frozen=True, slots=True)
class Setting:
    """One way, with what belongs to it. `ratio`: of a compressed gradient to a whole one."""

    name: str
    way: Way
    bound: int = 0
    every: int = 1
    codec: str = "plain"
    ratio: float = 1.0
    outer_rate: float = 1.0
    momentum: float = 0.0


SETTINGS = (
    Setting("all-reduce (gloo)", Way.ALL_REDUCE),
    Setting("parameter server, synchronous", Way.SYNCHRONOUS),
    Setting("parameter server, bound 2", Way.BOUNDED, bound=2),
    Setting("parameter server, asynchronous", Way.ASYNCHRONOUS),
    Setting("asynchronous, fp16", Way.ASYNCHRONOUS, codec="fp16", ratio=0.5),
    Setting("asynchronous, int8", Way.ASYNCHRONOUS, codec="int8", ratio=0.25),
    Setting("asynchronous, top-k 1 %", Way.ASYNCHRONOUS, codec="top-k", ratio=0.02),
    Setting("local SGD, every 8", Way.LOCAL, every=8),
    Setting("DiLoCo, every 8", Way.LOCAL, every=8, outer_rate=0.7, momentum=0.5),
)


@dataclass(frozen=True, slots=True)
class Job:
    """What each process is told, as JSON."""

    setting: dict[str, Any]
    role: str
    rank: int
    workers: int
    steps: int  # of all workers together, in gradients
    compute_ms: float
    slow_ms: float  # of the last worker
    server: str
    port: int
    answer: str


def run(setting: Setting, job: Job, hosts: Sequence[network.Host], limit_s: float) -> dict[str, Any]:
    """Starts all processes of one way and returns what rank 0, or the server, has measured."""
    serves = setting.way in (Way.SYNCHRONOUS, Way.BOUNDED, Way.ASYNCHRONOUS)
    processes = []
    for rank in range(-1 if serves else 0, job.workers):
        place = hosts[rank + 1] if hosts else None
        here = replace(job, setting=asdict(setting), role="server" if rank < 0 else "worker", rank=rank)
        command = [sys.executable, "-m", "benchmarks.rig.aggregating", json.dumps(asdict(here))]
        interface = {"GLOO_SOCKET_IFNAME": "eth0" if place else "lo"}
        processes.append(
            subprocess.Popen(place.command(*command) if place else command, env=os.environ | interface)
        )
    deadline = time.monotonic() + limit_s
    try:
        codes = [process.wait(max(1.0, deadline - time.monotonic())) for process in processes]
    except subprocess.TimeoutExpired:
        raise click.ClickException(f"{setting.name}: not done after {limit_s:.0f} s") from None
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
    if any(codes):
        raise click.ClickException(f"{setting.name}: the processes ended with {codes}")
    answer: dict[str, Any] = json.loads(Path(job.answer).read_text())
    return answer


def line(setting: Setting, job: Job, measured: dict[str, Any], link: float) -> dict[str, Any]:
    seconds = [job.compute_ms / 1000] * (job.workers - 1) + [job.slow_ms / 1000]
    expected = cost(setting.way, Workers(seconds, link), measured["size"], setting.ratio, setting.every)
    samples = job.steps * measured["batch"]
    return {
        "way": setting.name,
        "steps_per_second": round(job.steps / job.workers / measured["seconds"], 2),
        "samples_per_second": round(samples / measured["seconds"], 1),
        "samples": samples,
        "seconds": round(measured["seconds"], 2),
        "final_loss": round(measured["losses"][-1][2], 4),
        "loss_by_samples_and_seconds": measured["losses"],
        "staleness": measured["staleness"],
        "bytes_moved": measured["bytes_moved"],
        "predicted_samples_per_second": round(job.workers * measured["batch"] / expected.seconds, 1),
        "predicted_bytes_moved": round(expected.bytes_moved * job.steps / job.workers),
        "limited_by": expected.limited_by,
    }


def verdict(lines: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The way that is first at the loss that every way has reached, of those that reach it; equal samples alone say
    nothing of time."""
    target = max(min(loss for _, _, loss in each["loss_by_samples_and_seconds"]) for each in lines)

    def first(each: dict[str, Any]) -> float:
        return next(float(at) for _, at, loss in each["loss_by_samples_and_seconds"] if loss <= target)

    ranked = sorted(lines, key=first)
    seconds = {each["way"]: first(each) for each in ranked}
    best, baseline = (
        seconds[ranked[0]["way"]],
        seconds.get(SETTINGS[0].name),
    )  # none, where all-reduce has failed
    return {
        "verdict": ranked[0]["way"],
        "loss_reached_by_all": round(target, 4),
        "seconds_to_it": {way: round(at, 2) for way, at in seconds.items()},
        "times_faster_than_all_reduce": round(baseline / best, 2) if baseline and best else None,
    }


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _hosts(workers: int, mbit: int) -> list[network.Host]:
    shaped = network.Network(mbit)
    return [shaped.add(name) for name in ("server", *(f"worker{number}" for number in range(workers)))]


@click.command()
@click.option("--workers", default=3, show_default=True)
@click.option("--steps", default=60, show_default=True, help="Of each worker on average.")
@click.option(
    "--compute-ms", default=30.0, show_default=True, help="What a gradient takes beside its arithmetic."
)
@click.option("--straggler", default=3.0, show_default=True, help="How many times slower the last worker is.")
@click.option("--mbit", default=200, show_default=True, help="Of each link, where namespaces are allowed.")
@click.option(
    "--minutes", default=10.0, show_default=True, help="Of all ways; one that takes too long is given up."
)
@click.option("--only", default="", help="Ways whose names contain this.")
@click.option("--figure", type=click.Path(dir_okay=False, path_type=Path), help="Draws an SVG.")
def main(
    workers: int,
    steps: int,
    compute_ms: float,
    straggler: float,
    mbit: int,
    minutes: float,
    only: str,
    figure: Path | None,
) -> None:
    """Prints one JSON line a way, then the verdict.

    \b
    steps_per_second, samples_per_second   of all workers together; a step is a gradient of each
    loss_by_samples_and_seconds            loss on one fixed batch, of the shared parameters
    staleness                              how many gradients had missed so many updates
    bytes_moved                            through the links of the workers, both directions
    predicted_…                            by platform_core.aggregation.cost, before it is tried
    """
    shaped = network.inside_hub()
    hosts = _hosts(workers, mbit) if shaped else []
    link = mbit * 1e6 / 8 if shaped else 1e9
    lines, failed, deadline = [], False, time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory() as folder:
        job = Job(
            setting={}, role="", rank=0, workers=workers, steps=steps * workers, compute_ms=compute_ms,
            slow_ms=straggler * compute_ms, server="", port=0, answer=str(Path(folder, "answer.json")),
        )  # fmt: skip
        chosen = [setting for setting in SETTINGS if only in setting.name]
        for number, setting in enumerate(chosen):
            first = 0 if setting.way in (Way.SYNCHRONOUS, Way.BOUNDED, Way.ASYNCHRONOUS) else 1
            address = hosts[first].address if hosts else "127.0.0.1"
            here = replace(job, server=address, port=29_501 if hosts else _free_port())
            try:
                limit_s = (deadline - time.monotonic()) / (len(chosen) - number)
                lines.append(line(setting, here, run(setting, here, hosts, limit_s), link))
            except click.ClickException as problem:
                click.echo(json.dumps({"way": setting.name, "failed": problem.message}))
                failed = True
                continue
            click.echo(json.dumps(lines[-1]))
    if figure:
        figure.write_text(losses({each["way"]: each["loss_by_samples_and_seconds"] for each in lines}))
    if not only and lines:
        click.echo(json.dumps(verdict(lines)))
        click.echo(
            json.dumps(
                {"links": f"{mbit} Mbit/s" if shaped else "loopback, not shaped", "horovod": _horovod()}
            )
        )

    if failed:
        sys.exit(1)


def _horovod() -> str:
    if importlib.util.find_spec("horovod") is not None:
        return "installed: examples/horovod beside examples/ddp compares them on one job"
    return "not compared: PyPI has no wheel, and its source is C++14, which PyTorch's headers refuse"


if __name__ == "__main__":
    if not network.inside_hub():
        try:
            network.require()
        except network.NotHere:
            main()  # over the loopback
        sys.exit(network.enter_hub(MODULE))
    main()
