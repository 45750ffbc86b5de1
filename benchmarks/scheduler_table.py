"""The table and the plot of docs/scheduling.md: `python -m benchmarks.scheduler_table --traces DIR`.

Replays every case below under every policy, which takes about an hour; with `--lines FILE` it takes the lines that
`benchmarks.scheduler` has printed before.
"""

from __future__ import annotations

import json
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
WITHOUT_LIMITS = ("las", "las_8h", "ours")  # what is the same without limits is not replayed twice
BASELINES = ("fifo", "skip", "easy", "las")  # those that do not know durations
COLUMNS = ("trace", "nodes", "estimates", "policy", "mean", "p99 queue", "mean above 8 GPUs", "preemptions")
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
PAGE = Path(__file__).parent.parent / "docs" / "scheduling.md"
PLOT = PAGE.with_suffix(".svg")


def name_of(line: Line) -> str:
    return f"{line['trace']} {line['window']}".strip()


def table(lines: Iterable[Line]) -> list[str]:
    rows = [f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}"]
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
        rows.append(f"| {' | '.join(str(cell) for cell in cells)} |")
    return rows


def by_case(lines: Iterable[Line], estimates: str) -> dict[str, dict[str, Line]]:
    groups: dict[str, dict[str, Line]] = {}
    for line in lines:
        if line["estimates"] == estimates:
            groups.setdefault(f"{name_of(line)}, {line['nodes']} nodes", {})[line["policy"]] = line
    return groups


def ratios(lines: Sequence[Line]) -> list[str]:
    """Ours against the best baseline without an oracle; the goals are 0.80, 1.00 and 1.00."""
    told: list[str] = []
    for case, by_policy in by_case(lines, "factor:1-5").items():
        if any(name not in by_policy for name in ("ours", "easy", "las")):
            continue
        own, others = by_policy["ours"], [by_policy[name] for name in BASELINES if name in by_policy]
        mean = own["mean_jct_s"] / min(other["mean_jct_s"] for other in others)
        tail = own["p99_queue_s"] / min(other["p99_queue_s"] for other in others)
        floor = own["mean_jct_s"] - own["mean_queue_s"]
        told.append(
            f"- {case}: mean {mean:.3f}, p99 queueing {tail:.3f}, above 8 GPUs {large_ratio(own, by_policy['easy'])} "
            f"of easy; mean without any queueing about {floor:,.0f} s{oracle_ratio(own, by_policy)}"
        )
    return told


def large_ratio(own: Line, other: Line) -> str:
    large, theirs = (each["by_size"]["9+"]["mean_jct_s"] for each in (own, other))
    return "none there" if large is None else f"{large / theirs:.3f}"


def oracle_ratio(own: Line, by_policy: dict[str, Line]) -> str:
    oracle = by_policy.get("srtf")
    return f"; {own['mean_jct_s'] / oracle['mean_jct_s']:.2f} of the srtf oracle's mean" if oracle else ""


def ratios_without_limits(lines: Sequence[Line]) -> list[str]:
    """The goals are 1.00 of las in the mean, and 1.00 of easy with limits above 8 GPUs."""
    limited, told = by_case(lines, "factor:1-5"), list[str]()
    for case, by_policy in by_case(lines, "none").items():
        las, easy = by_policy.get("las"), limited.get(case, {}).get("easy")
        if "ours" in by_policy and las and easy:
            mean = by_policy["ours"]["mean_jct_s"] / las["mean_jct_s"]
            large = large_ratio(by_policy["ours"], easy)
            told.append(f"- {case}, no limits: mean {mean:.3f} of las, above 8 GPUs {large} of easy")
    return told


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
    with ProcessPoolExecutor(processes) as pool, kept.open("a") as file:
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
    """Replay what is missing, and write what was measured into docs/scheduling.md and the plot beside it."""
    if traces is not None:
        replay_all(traces, kept, processes)
    told = read(kept)
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page = [*table(told), "", *ratios(told), "", *ratios_without_limits(told)]
    PAGE.write_text("\n".join([before + BEGIN, "", *page, "", END]) + after)
    PLOT.write_text(plot(told))


if __name__ == "__main__":
    main()
