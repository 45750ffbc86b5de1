"""The lines of `benchmarks.scheduler` as a table: `cat lines.jsonl | python -m benchmarks.scheduler_table`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

Line = dict[str, Any]
BASELINES = ("fifo", "skip", "easy", "las")  # those that do not know durations
COLUMNS = ("trace", "nodes", "estimates", "policy", "mean", "p99 queue", "mean above 8 GPUs", "preemptions")


def table(lines: Iterable[Line]) -> list[str]:
    rows = [f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}"]
    for line in lines:
        large = line["by_size"]["9+"]["mean_jct_s"]
        cells = [
            line["trace"],
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


def ratios(lines: Iterable[Line], candidate: str) -> list[str]:
    """A candidate against the best baseline without an oracle: the three goals are 0.80, 1.00 and 1.00."""
    groups: dict[tuple[str, int, str], dict[str, Line]] = {}
    for line in lines:
        groups.setdefault((line["trace"], line["nodes"], line["estimates"]), {})[line["policy"]] = line
    told: list[str] = []
    for (trace, nodes, estimates), by_policy in groups.items():
        if candidate not in by_policy or any(name not in by_policy for name in BASELINES):
            continue
        own, others = by_policy[candidate], [by_policy[name] for name in BASELINES]
        mean = own["mean_jct_s"] / min(other["mean_jct_s"] for other in others)
        tail = own["p99_queue_s"] / min(other["p99_queue_s"] for other in others)
        large, easy = (each["by_size"]["9+"]["mean_jct_s"] for each in (own, by_policy["easy"]))
        said = "none there" if large is None else f"{large / easy:.2f}"
        told.append(
            f"{candidate} on {trace}, {nodes} nodes, {estimates}: mean {mean:.2f}, p99 {tail:.2f}, above 8 {said}"
        )
    return told


def main() -> None:
    lines: list[Line] = [json.loads(text) for text in sys.stdin if text.strip()]
    told = [*ratios(lines, "ours"), *ratios(lines, "preempting")]
    print("\n".join([*table(lines), "", *told]))


if __name__ == "__main__":
    main()
