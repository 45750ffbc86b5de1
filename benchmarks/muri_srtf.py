"""SRTF by the rules behind the published Muri numbers: `python -m benchmarks.muri_srtf --traces FOLDER`.

The rules of their simulator differ from this house's: at every arrival and every end the cluster is emptied and filled
anew, the job with the least left first, so that jobs move for nothing; whoever runs pays for a start then, whether it
moved or not; and work takes 1.5 % longer than the trace says (github.com/Rivendile/Muri, simulator/run_sim.py and
switch.py, there with 4 to 46 s for a start by model). One JSON line for each trace and step from plain rules to theirs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path

import click

from benchmarks.scheduler import read_trace
from platform_core.simulation.workload import TraceJob

NODES, SLOTS = 8, 8
PUBLISHED_S = {"muri_trace1": 1_370_603, "muri_trace3": 193_082, "muri_trace4": 581_983}
STRETCH, START_S = 1.015, 10.0


@dataclass(slots=True, eq=False)
class Job:
    submitted_s: float
    gpus: int
    left_s: float
    runs: bool = False


def mean_completion_s(trace: Sequence[TraceJob], stretch: float = 1.0, start_s: float = 0.0) -> float:
    """Seconds from a job's submission to its end."""
    coming = [Job(job.submit_ms / 1_000, job.gpus, job.duration_ms / 1_000 * stretch) for job in trace]
    coming.sort(key=lambda job: -job.submitted_s)
    there: list[Job] = []
    now_s = total_s = 0.0
    while coming or there:
        arrives_s = coming[-1].submitted_s if coming else inf
        ends_s = min((now_s + job.left_s for job in there if job.runs), default=inf)
        if min(arrives_s, ends_s) == inf:
            raise ValueError(f"{len(there)} jobs are larger than {NODES} nodes of {SLOTS} GPUs")
        then_s = min(arrives_s, ends_s)
        ended = [job for job in there if job.runs and now_s + job.left_s == then_s]
        total_s += sum(then_s - job.submitted_s for job in ended)
        there = [job for job in there if job not in ended]
        for job in there:
            job.left_s -= max(0.0, then_s - now_s - start_s) if job.runs else 0.0
        while coming and coming[-1].submitted_s == then_s:
            there.append(coming.pop())
        now_s = then_s
        there.sort(key=lambda job: job.left_s)
        fill(there)
    return total_s / len(trace)


def fill(jobs: Sequence[Job]) -> None:
    """Into an empty cluster, first fit; one that does not fit is passed by."""
    free = [SLOTS] * NODES
    for job in jobs:
        whole, rest = divmod(job.gpus, SLOTS) if job.gpus > SLOTS else (0, job.gpus)
        idle = [node for node, slots in enumerate(free) if slots == SLOTS][:whole]
        last = next((node for node, slots in enumerate(free) if slots >= rest and node not in idle), None)
        job.runs = len(idle) == whole and (not rest or last is not None)
        if job.runs:
            for node in idle:
                free[node] = 0
            if rest and last is not None:
                free[last] -= rest


def lines(traces: Path) -> Iterator[dict[str, object]]:
    for name, published_s in PUBLISHED_S.items():
        trace = read_trace(traces / f"{name}.csv", "", "exact", 0, 1.0)
        for stretch, start_s in ((1.0, 0.0), (STRETCH, 0.0), (STRETCH, START_S)):
            mean_s = mean_completion_s(trace, stretch, start_s)
            yield {
                "trace": name,
                "stretch": stretch,
                "start_s": start_s,
                "mean_jct_s": round(mean_s),
                "published_s": published_s,
                "ratio": round(mean_s / published_s, 4),
            }


@click.command()
@click.option("--traces", required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
def main(traces: Path) -> None:
    """The folder has muri_trace1.csv, 3 and 4."""
    for line in lines(traces):
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
