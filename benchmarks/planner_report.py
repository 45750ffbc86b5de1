"""Write what docs/explanation/parallelism.md says is measured, with its plots: `python -m benchmarks.planner_report
--tables DIR`.

DIR holds vtrain_multi_node.csv and vtrain_single_node.csv, the validation tables of VIA-Research/vTrain (MIT) under
these names. Without it only the published figures are compared, whose values are in benchmarks/planner_published.py.
The same code and tables give the same bytes: no date, no machine, no timing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import click

from benchmarks.planner import regret, summary, time_search
from benchmarks.planner_figure import bars, scatter
from benchmarks.planner_published import published
from benchmarks.planner_rows import Row, read_table
from platform_core.parallelism.hardware import Cluster, gpu_of
from platform_core.parallelism.layout import MEGATRON
from platform_core.parallelism.plan import title

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "parallelism.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
WORST = 5  # rows of each table
MOST_CHOICES = 8  # that are named one by one


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    file: str
    about: str

    @property
    def plot(self) -> str:
        return f"parallelism-{self.name.replace(' ', '-')}.svg"


TABLES = (
    Table("several nodes", "vtrain_multi_node.csv", "64 to 512 A100 80 GB, 800 Gbit/s a node"),
    Table("one node", "vtrain_single_node.csv", "2 to 8 A100 80 GB"),
)
# What errors are divided by, to see where they come from.
KINDS: Mapping[str, Callable[[Row], int]] = {
    "tensor ranks": lambda row: row.layout.tensor,
    "data ranks": lambda row: row.layout.data,
    "stages": lambda row: row.layout.pipeline,
    "micro-batch": lambda row: row.layout.micro_batch,
}


def measured(table: Table, rows: Sequence[Row]) -> Iterator[str]:
    """The part of the page about one table of measured steps."""
    found: Mapping[str, Any] = summary(rows)
    choices = regret(rows)
    yield f"### Measured steps: {table.name}"
    yield f"{len(rows):,} steps of {table.about}; Megatron-DeepSpeed, full recompute, 1F1B."
    yield f"![Predicted over measured seconds]({table.plot})"
    yield _table(
        (
            "error in %",
            "as the formulas say",
            "one constant, each row left out",
            "one constant from ten rows",
        ),
        [
            ("mean absolute", found["mape"], found["mape_leave_one_out"], found["mape_few_rows"]),
            ("mean", found["bias"], "", ""),
            ("largest", found["worst"], found["worst_leave_one_out"], ""),
        ],
    )
    yield f"The constant, the median of measured over predicted, is {found['calibration']}. " + _regrets(
        choices
    )
    yield "Mean absolute error (and mean error) in % by what the layout has:"
    yield _table(("", *map(str, _degrees(rows))), [_by_kind(rows, name) for name in KINDS])
    yield f"The {WORST} largest errors:"
    worst = sorted(rows, key=lambda row: -abs(row.predicted / row.measured - 1))[:WORST]
    yield _table(
        ("model", "layout", "micro-batch", "measured", "predicted", "error"),
        [
            (
                row.group, title(row.layout), row.layout.micro_batch, f"{row.measured:.2f} s",
                f"{row.predicted:.2f} s", f"{100 * (row.predicted / row.measured - 1):+.1f} %",
            )
            for row in worst
        ],
    )  # fmt: skip


def _regrets(choices: Mapping[str, float]) -> str:
    """How much slower than the best measured layout the first choice of the planner was."""
    if len(choices) <= MOST_CHOICES:
        each = "; ".join(f"{percent:.1f} % for {group}" for group, percent in choices.items())
        return f"The layout that the planner ranks first was slower than the best measured one by {each}."
    right = sum(percent < 1 for percent in choices.values())
    return (
        f"Of {len(choices)} choices of a layout the planner's first was at most 1 % slower than the best measured one"
        f" in {right}, {mean(choices.values()):.1f} % on average and {max(choices.values()):.1f} % at worst."
    )


def _degrees(rows: Sequence[Row]) -> list[int]:
    return sorted({kind(row) for kind in KINDS.values() for row in rows})


def _by_kind(rows: Sequence[Row], name: str) -> tuple[object, ...]:
    groups = defaultdict(list)
    for row in rows:
        groups[KINDS[name](row)].append(100 * (row.predicted / row.measured - 1))
    cells = [groups.get(degree) for degree in _degrees(rows)]
    shown = [f"{mean(map(abs, errors)):.1f} ({mean(errors):+.1f})" if errors else "" for errors in cells]
    return (name, *shown)


def compared(lines: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The part about figures that others published."""
    yield "### Published figures"
    yield "Nothing is calibrated. The picture has errors of the time of a step, the table those of what was published."
    yield "![Errors of the predictions](parallelism-published.svg)"
    rows = []
    for line in lines:
        memory = f"{line['memory_gib']} GiB, {line['predicted_gib']}" if "memory_gib" in line else ""
        error = _signed(line["error"])
        rows.append(
            (
                line["source"],
                line["case"],
                f"{line['published']:,} {line['unit']}",
                f"{line['predicted']:,}",
                error,
                memory,
            )
        )
    yield _table(("source", "case", "published", "predicted", "error", "memory, predicted"), rows)
    errors = [line["error"] for line in lines]
    size, bias = mean(map(abs, errors)), mean(errors)
    ends = f"from {_signed(min(errors))} to {_signed(max(errors))}"
    yield f"Mean absolute error {size:.1f} %, mean error {_signed(bias)}, {ends}."


def late(line: Mapping[str, Any]) -> float:
    """By how many per cent the predicted step is longer than the published one; figures other than s are rates."""
    ratio = float(line["predicted"] / line["published"])
    return 100 * ((ratio if line["unit"] == "s" else 1 / ratio) - 1)


def _signed(percent: float) -> str:
    return f"{round(percent, 1) + 0.0:+.1f} %"


def searched() -> str:
    found: Mapping[str, Any] = time_search()
    looked, pruned = found["looked_at"], found["pruned"]
    return (
        f"The search for {found['search']} looks at {looked:,} of {looked + pruned:,} layouts and puts"
        f" {found['first']} first, with {found['step_ms'] / 1000:.1f} s a step."
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        f"| {' | '.join(str('' if cell is None else cell) for cell in line)} |" for line in lines
    )


def write(page: Path, body: str) -> None:
    """Between the two marks; what stands around them is written by people."""
    text = page.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n\n{body}\n\n{END}{after}")


def section(page: Path, heading: str) -> str:
    """What the page says now under a heading of the measured part, '' where it has none."""
    body = page.read_text().partition(BEGIN)[2].partition(END)[0]
    _, found, rest = body.partition(heading)
    return (found + rest.partition("\n### ")[0]).strip() if found else ""


@click.command()
@click.option(
    "--tables", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Folder of the CSV files."
)
@click.option(
    "--page", type=click.Path(dir_okay=False, path_type=Path), default=PAGE, help="Where to write instead."
)
def main(tables: Path | None, page: Path) -> None:
    """Compares the planner with every table that is there, and writes the page and its plots.

    Parts about tables that are not there stay as they are.
    """
    lines = list(published())
    (page.parent / "parallelism-published.svg").write_text(
        bars([(f"{line['source']}: {line['case']}", late(line)) for line in lines])
    )
    parts = ["\n\n".join(compared(lines))]
    cluster = Cluster(gpu_of("a100-80gb"), 1, 8, 800e9 / 8)
    for table in TABLES:
        path = tables / table.file if tables else None
        if path is None or not path.exists():
            parts.append(section(page, f"### Measured steps: {table.name}"))
            continue
        rows = read_table(path, cluster, MEGATRON).rows
        name = f"{table.name}, {len(rows):,} steps"
        (page.parent / table.plot).write_text(scatter([row.step for row in rows], name))
        parts.append("\n\n".join(measured(table, rows)))
    parts.append(f"### Search\n\n{searched()}")
    write(page, "\n\n".join(part for part in parts if part))
    click.echo(f"wrote {page}")


if __name__ == "__main__":
    main()
