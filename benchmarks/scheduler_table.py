"""Write benchmarks/results/scheduler_table.md and its plot: `python -m benchmarks.scheduler_table --traces DIR`.

Replays every case below under every policy, on all cores, and prints and keeps each line of `benchmarks.scheduler` as
it comes: a run that was interrupted goes on where it was. About half an hour of CPU time.
"""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import click

from benchmarks.scheduler import CONTESTANTS, lines

Line = dict[str, Any]
Case = tuple[str, str, int]  # trace, window of days, nodes
Task = tuple[str, str, int, str, str]  # and estimates, policy
CASES: tuple[Case, ...] = (
    ("muri_trace1", "", 8),
    ("muri_trace3", "", 8),
    ("muri_trace4", "", 8),
    ("philly_2017_09_10", "27:58", 64),
    ("philly_2017_09_10", "27:58", 80),
    ("philly_2017_09_10", "0:27", 64),
)
WITHOUT_LIMITS = ("las", "ours")  # the others would need limits, or are not asked for
BASELINES = ("fifo", "skip", "easy", "las")  # those that do not know durations
STRONGER = "las_8h"  # found with these traces in view, so it is no baseline, but it is told beside them
NAMES, BOUNDS = ("mean", "p99", "large"), (0.8, 1.0, 1.0)
GOALS = (
    "case",
    "best baseline",
    "0.80 of it",
    "if none waits",
    "srtf",
    "ours",
    "mean of the best",
    "p99 queue of the best",
    "above 8 GPUs of easy",
    "goals",
)
GOALS_WITHOUT_LIMITS = (
    "case, no limits",
    "mean of las",
    "above 8 GPUs of easy",
    "goals",
    f"mean of {STRONGER}",
)
COLUMNS = ("trace", "nodes", "estimates", "policy", "mean", "p99 queue", "mean above 8 GPUs", "preemptions")
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
PAGE = Path(__file__).parent / "results" / "scheduler_table.md"
PLOT = PAGE.with_suffix(".svg")


def name_of(line: Line) -> str:
    return f"{line['trace']} {line['window']}".strip()


def table(lines: Iterable[Line]) -> list[str]:
    rows = markdown(COLUMNS)
    for line in lines:
        large = line["by_size"]["9+"]["mean_jct_s"]
        cells = [
            name_of(line),
            line["nodes"],
            line["estimates"],
            line["policy"],
            f"{line['mean_jct_s']:,.0f}",
            f"{line['p99_queue_s']:,.0f}",
            "" if large is None else f"{large:,.0f}",
            f"{line['preemptions']:,}",
        ]
        rows.append(row(cells))
    return rows


def markdown(columns: Sequence[str]) -> list[str]:
    return [row(columns), f"|{'---|' * len(columns)}"]


def row(cells: Sequence[object]) -> str:
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def by_case(lines: Iterable[Line], estimates: str) -> dict[str, dict[str, Line]]:
    groups: dict[str, dict[str, Line]] = {}
    for line in lines:
        if line["estimates"] == estimates:
            groups.setdefault(f"{name_of(line)}, {line['nodes']} nodes", {})[line["policy"]] = line
    return groups


def goals(lines: Iterable[Line]) -> list[str]:
    """Ours against the best baseline, and against it and the stronger variant; a goal below `if none waits` is none."""
    rows = markdown(GOALS)
    for case, by_policy in by_case(lines, "factor:1-5").items():
        if not {*BASELINES, STRONGER, "srtf", "ours"} <= by_policy.keys():
            continue
        own, others = by_policy["ours"], [by_policy[name] for name in BASELINES]
        for against in (others, [*others, by_policy[STRONGER]]):
            best = min(against, key=mean_s)
            reached = (
                mean_s(own) / mean_s(best),
                own["p99_queue_s"] / min(each["p99_queue_s"] for each in against),
                large_ratio(own, by_policy["easy"]),
            )
            goal_s, floor_s = BOUNDS[0] * mean_s(best), if_none_waits_s(by_policy["fifo"])
            told = [case, f"{best['policy']} {mean_s(best):,.0f}", f"{goal_s:,.0f}", f"{floor_s:,.0f}"]
            told += [f"{mean_s(by_policy['srtf']):,.0f}", f"{mean_s(own):,.0f}"]
            told += ["none there" if ratio is None else f"{ratio:.3f}" for ratio in reached]
            rows.append(row([*told, verdict(reached, possible=floor_s <= goal_s)]))
    return rows


def verdict(reached: Sequence[float | None], *, possible: bool) -> str:
    missed = [
        name if possible or name != NAMES[0] else f"{name} (nobody could)"
        for name, ratio, bound in zip(NAMES, reached, BOUNDS, strict=True)
        if ratio is not None and ratio > bound
    ]
    return f"misses {', '.join(missed)}" if missed else "met"


def if_none_waits_s(fifo: Line) -> float:
    """The mean run time: first come stops nobody, so what is not waiting is work."""
    return float(fifo["mean_jct_s"] - fifo["mean_queue_s"])


def mean_s(line: Line) -> float:
    return float(line["mean_jct_s"])


def large_ratio(own: Line, other: Line) -> float | None:
    large, theirs = (each["by_size"]["9+"]["mean_jct_s"] for each in (own, other))
    return None if large is None else large / theirs


def goals_without_limits(lines: Sequence[Line]) -> list[str]:
    """At most las in the mean, and at most easy, which has limits, above 8 GPUs."""
    limited, rows = by_case(lines, "factor:1-5"), markdown(GOALS_WITHOUT_LIMITS)
    for case, by_policy in by_case(lines, "none").items():
        easy, stronger = limited.get(case, {}).get("easy"), limited.get(case, {}).get(STRONGER)
        if {"las", "ours"} <= by_policy.keys() and easy and stronger:
            own, large = by_policy["ours"], large_ratio(by_policy["ours"], easy)
            mean = mean_s(own) / mean_s(by_policy["las"])
            met = "met" if mean <= 1 and (large is None or large <= 1) else "not met"
            told = [case, f"{mean:.3f}", "none there" if large is None else f"{large:.3f}", met]
            rows.append(row([*told, f"{mean_s(own) / mean_s(stronger):.3f}"]))
    return rows


def plot(lines: Sequence[Line]) -> str:
    """Mean completion of each policy over that of the best baseline; bars beyond three times it are cut."""
    bars: list[str] = []
    y = 30
    for case, by_policy in by_case(lines, "factor:1-5").items():
        best = min((by_policy[name]["mean_jct_s"] for name in BASELINES if name in by_policy), default=None)
        if best is None:
            continue
        bars.append(f'<text x="10" y="{y}" font-weight="bold">{case}</text>')
        for name, line in by_policy.items():
            y += 18
            ratio = line["mean_jct_s"] / best
            fill = "#2f6fed" if name == "ours" else "#9aa4b2"
            width = round(min(3.0, ratio) * 150)
            bars.append(f'<text x="10" y="{y}">{name}</text>')
            bars.append(f'<rect x="70" y="{y - 11}" width="{width}" height="13" fill="{fill}"/>')
            bars.append(f'<text x="{76 + width}" y="{y}">{ratio:.2f}</text>')
        y += 32
    style = 'font-family="sans-serif" font-size="12" fill="#566"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="600" height="{y}" {style}>'
    title = '<text x="10" y="12">Mean completion over the best baseline without an oracle</text>'
    return "\n".join([head, title, *bars, "</svg>"]) + "\n"


def tasks() -> list[Task]:
    """Every case under every policy, and without limits those that the goals compare."""
    return [
        (*case, estimates, policy)
        for case in CASES
        for estimates, policies in (("factor:1-5", tuple(CONTESTANTS)), ("none", WITHOUT_LIMITS))
        for policy in policies
    ]


def task_of(line: Line) -> Task:
    return (line["trace"], line["window"], line["nodes"], line["estimates"], line["policy"])


def replayed(traces: Path, task: Task) -> Line:
    trace, window, nodes, estimates, policy = task
    [line] = lines(traces / f"{trace}.csv", nodes, [policy], window=window, estimates=estimates)
    return line


def replay_all(traces: Path, kept: Path, processes: int | None) -> None:
    """Each line is kept as it comes; those that are kept already are not replayed again."""
    done = {task_of(line) for line in read(kept)}
    missing = [task for task in tasks() if task not in done]
    # A fork has the connections of its parent, and may wait on them for ever.
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, fresh) as pool, kept.open("a") as file:
        for future in as_completed([pool.submit(replayed, traces, task) for task in missing]):
            print(text := json.dumps(future.result()), flush=True)
            print(text, file=file, flush=True)


def read(kept: Path) -> list[Line]:
    """In the order of the cases."""
    texts = kept.read_text().splitlines() if kept.exists() else []
    by_task = {task_of(line): line for line in map(json.loads, filter(None, texts))}
    return [by_task[task] for task in tasks() if task in by_task]


@click.command()
@click.option("--traces", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--lines",
    "kept",
    default="scheduler_lines.jsonl",
    show_default=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where lines are kept; a run that was interrupted goes on with it.",
)
@click.option("--processes", type=int, help="As many as there are cores by default.")
def main(traces: Path | None, kept: Path, processes: int | None) -> None:
    """Replay missing cases; write the tables and the plot of benchmarks/results/scheduler_table.md."""
    if traces is not None:
        replay_all(traces, kept, processes)
    told = read(kept)
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page = [*goals(told), "", *goals_without_limits(told), "", *table(told)]
    PAGE.write_text("\n".join([before + BEGIN, "", *page, "", END]) + after)
    PLOT.write_text(plot(told))


if __name__ == "__main__":
    main()
