"""The parallelism planner against measured steps: `python -m benchmarks.planner --rows FILE.csv --gpu
a100-80gb`.

The file has one training step a row, with the columns of VIA-Research/vTrain: # GPUs, global batch, micro
batch, hidden size, attention heads, # layers, sequence length, tensor parallelism, data parallelism, pipeline
parallelism, iteration time (ms); and perhaps vocabulary (51200), virtual stages (1), recompute (full,
selective or none; full) and sequence parallel (yes or no; no). Case, underscores and number signs of a title
do not matter; other columns are named in the answer and not read.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

import click

from benchmarks.planner_figure import scatter
from benchmarks.planner_published import published
from benchmarks.planner_rows import VOCABULARY, Row, read_table
from platform_core.parallelism.calibration import calibrate, errors, errors_leave_one_out
from platform_core.parallelism.hardware import Cluster, gpu_of
from platform_core.parallelism.layout import MEGATRON, MODERN
from platform_core.parallelism.model_shape import gpt
from platform_core.parallelism.plan import title
from platform_core.parallelism.search import search

RECIPES = {"megatron": MEGATRON, "modern": MODERN}
CALIBRATION_ROWS = 10


def regret(rows: Sequence[Row]) -> dict[str, float]:
    """By how many per cent the plan ranked first was slower than the best measured, in each group with a
    choice."""
    groups = defaultdict(list)
    for row in rows:
        groups[row.group].append(row)
    return {
        name: _percent(
            min(group, key=lambda row: row.predicted).measured / min(row.measured for row in group) - 1
        )
        for name, group in sorted(groups.items())
        if len({row.layout for row in group}) > 1
    }


def summary(rows: Sequence[Row]) -> dict[str, object]:
    steps = [row.step for row in rows]
    plain, left_out = errors(steps), errors_leave_one_out(steps)
    chosen = regret(rows)
    return {
        "rows": len(rows),
        "mape": _percent(mean(map(abs, plain))),
        "bias": _percent(mean(plain)),
        "worst": _percent(max(plain, key=abs)),
        "mape_leave_one_out": _percent(mean(map(abs, left_out))),
        "worst_leave_one_out": _percent(max(left_out, key=abs)),
        "calibration": round(calibrate(steps).factor, 4),
        "mape_few_rows": _few_rows(steps),
        "regret": {"worst": max(chosen.values(), default=0.0), **chosen},
    }


def _few_rows(steps: Sequence[tuple[float, float]]) -> float | None:
    """Calibrated with ten rows that lie evenly in the file, and tested on all others."""
    if len(steps) < 2 * CALIBRATION_ROWS:
        return None
    known = {at * len(steps) // CALIBRATION_ROWS for at in range(CALIBRATION_ROWS)}
    factor = calibrate([steps[at] for at in sorted(known)]).factor
    others = [(factor * predicted, took) for at, (predicted, took) in enumerate(steps) if at not in known]
    return _percent(mean(map(abs, errors(others))))


def _percent(share: float) -> float:
    return round(100 * share, 2)


def _cluster(gpu_name: str, gpus_per_node: int, network_gbit: float) -> Cluster:
    try:
        return Cluster(gpu_of(gpu_name), 1, gpus_per_node, network_gbit * 1e9 / 8)
    except ValueError as problem:
        raise click.ClickException(str(problem)) from problem


def time_search() -> dict[str, object]:
    """310 B on 512 H100, the whole space, on one core."""
    shape, cluster = gpt(96, 16_384, 128, 4_096, VOCABULARY), Cluster(gpu_of("h100-80gb"), 64, 8, 400e9)
    begun = time.process_time()
    answer = search(shape, cluster, MODERN, 2_048)
    return {
        "search": "310 B on 512 h100-80gb",
        "cpu_seconds": round(time.process_time() - begun, 3),
        "looked_at": answer.looked_at,
        "pruned": answer.pruned,
        "first": title(answer.plans[0].layout),
        "step_ms": answer.plans[0].step_ms,
    }


@click.command()
@click.option(
    "--rows", "path", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Measured steps."
)
@click.option(
    "--gpu", "gpu_name", default="a100-80gb", show_default=True, help="Its type, such as h100-80gb or h200."
)
@click.option("--network-gbit", type=float, default=800.0, show_default=True, help="Of one node.")
@click.option("--gpus-per-node", type=int, default=8, show_default=True)
@click.option(
    "--recipe", type=click.Choice(sorted(RECIPES)), help="Software; by default that of the GPU's time."
)
@click.option(
    "--figure",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draws an SVG.",
)
@click.option(
    "--published",
    "tables",
    is_flag=True,
    help="Others' figures; times a search.",
)
def main(
    path: Path | None,
    gpu_name: str,
    network_gbit: float,
    gpus_per_node: int,
    recipe: str | None,
    figure: Path | None,
    tables: bool,
) -> None:
    """Predicts measured training steps and prints one JSON line; all errors in per cent of what was measured.

    \b
    rows                  how many steps
    mape, bias, worst     mean absolute error, mean error, and the largest one, nothing calibrated
    mape_leave_one_out    the same of each step when one constant is calibrated on all the others
    worst_leave_one_out   the largest of these
    calibration           that constant, from all rows: the median of measured / predicted
    mape_few_rows         calibrated on ten rows that lie evenly in the file, tested on all others
    regret                how much slower than the best measured the plan was that is ranked first, for
                          each model, batch and number of GPUs, and the worst of these
    columns_not_read      titles that mean nothing here, where there are some
    doubtful              why the planner would not offer a layout that was measured, and how often
    """
    if path:
        cluster = _cluster(gpu_name, gpus_per_node, network_gbit)
        software = RECIPES[recipe] if recipe else MODERN if cluster.gpu.fp8_rate else MEGATRON
        table = read_table(path, cluster, software)
        rows = table.rows
        if not rows:
            raise click.ClickException(f"{path} has no rows")
        notes = {"columns_not_read": table.unknown, "doubtful": table.doubtful}
        click.echo(json.dumps(summary(rows) | {name: note for name, note in notes.items() if note}))
        if figure:
            figure.write_text(scatter([row.step for row in rows], path.stem))
    if tables:
        for line in [*published(), time_search()]:
            click.echo(json.dumps(line))
    if not path and not tables:
        raise click.UsageError("nothing to do: give --rows FILE or --published")


if __name__ == "__main__":
    main()
