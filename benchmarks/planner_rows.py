"""Tables of measured training steps, read row by row for `benchmarks.planner`."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from platform_core.jobs.transformer import Recompute
from platform_core.parallelism.hardware import Cluster
from platform_core.parallelism.layout import Layout, Recipe, refusals
from platform_core.parallelism.model_shape import ModelShape, gpt
from platform_core.parallelism.step_time import step_time

VOCABULARY = 51_200  # of GPT-2, padded by Megatron
NEEDED = (
    "gpus", "global batch", "micro batch", "hidden size", "attention heads", "layers", "sequence length",
    "tensor parallelism", "data parallelism", "pipeline parallelism", "iteration time (ms)",
)  # fmt: skip
OPTIONAL = ("vocabulary", "virtual stages", "recompute", "sequence parallel")
# Other spellings that tables of this kind have, after `_name`.
SPELLINGS = {
    "num gpus": "gpus", "number of gpus": "gpus", "global batch size": "global batch",
    "micro batch size": "micro batch", "microbatch": "micro batch", "hidden": "hidden size", "heads": "attention heads",
    "num heads": "attention heads", "num layers": "layers", "number of layers": "layers",
    "seq length": "sequence length", "sequence": "sequence length",
    "tensor parallel": "tensor parallelism", "tp": "tensor parallelism",
    "data parallel": "data parallelism", "dp": "data parallelism", "pipeline parallel": "pipeline parallelism",
    "pp": "pipeline parallelism", "iteration time ms": "iteration time (ms)", "vocab": "vocabulary",
    "vocab size": "vocabulary", "vocabulary size": "vocabulary", "virtual pipeline stages": "virtual stages",
    "sequence parallelism": "sequence parallel", "recomputation": "recompute",
}  # fmt: skip
_IGNORED = ("parameters (billion)",)
_TRUTHS = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False, "": False}
# What forbids a layout in this planner, but not in the program that has run it.
_MEASURED_ANYWAY = frozenset({"heads", "ffn", "kv_heads", "layers", "chunks", "interleaving", "sequence"})


@dataclass(frozen=True, slots=True)
class Row:
    shape: ModelShape
    layout: Layout
    global_batch: int
    measured: float  # seconds
    predicted: float

    @property
    def step(self) -> tuple[float, float]:
        return self.predicted, self.measured

    @property
    def group(self) -> str:
        """What one would choose a layout for: a model, a batch and a number of GPUs."""
        return f"{self.shape.parameters / 1e9:.3g} B, batch {self.global_batch}, {self.layout.gpus} GPUs"


@dataclass(slots=True)
class Table:
    """`unknown`: columns that are not read; `doubtful`: why the planner would not offer a layout, and how often."""

    rows: Sequence[Row]
    unknown: Sequence[str]
    doubtful: Mapping[str, int]


def read_table(path: Path, cluster: Cluster, recipe: Recipe) -> Table:
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file)
        columns = {title: _name(title) for title in reader.fieldnames or ()}
        _check(path, columns)
        doubtful = Counter[str]()
        rows = list(_rows(path, reader, columns, cluster, recipe, doubtful))
    known = {*NEEDED, *OPTIONAL, *_IGNORED}
    return Table(rows, [title for title, name in columns.items() if name not in known], doubtful)


def _name(title: str) -> str:
    """A column's name whatever its case, underscores, hyphens and number signs: "# GPUs", "Micro_Batch"."""
    plain = re.sub(r"[\s_#-]+", " ", title).strip().lower()
    return SPELLINGS.get(plain, plain)


def _check(path: Path, columns: Mapping[str, str]) -> None:
    missing = [name for name in NEEDED if name not in columns.values()]
    if missing:
        raise click.ClickException(
            f"{path} lacks the columns {', '.join(missing)}; it has {', '.join(columns) or 'none'}"
        )
    twice = [name for name, count in Counter(columns.values()).items() if count > 1]
    if twice:
        raise click.ClickException(f"{path} has the column {twice[0]} more than once")


def _rows(
    path: Path,
    reader: csv.DictReader[str],
    columns: Mapping[str, str],
    cluster: Cluster,
    recipe: Recipe,
    doubtful: Counter[str],
) -> Iterator[Row]:
    for line in reader:
        cells = {columns[title]: (cell or "").strip() for title, cell in line.items() if title in columns}
        if not any(cells.values()):
            continue
        try:
            yield _row(cells, cluster, recipe, doubtful)
        except ValueError as problem:
            raise click.ClickException(f"{path}, line {reader.line_num}: {problem}") from problem


def _row(cells: Mapping[str, str], cluster: Cluster, recipe: Recipe, doubtful: Counter[str]) -> Row:
    shape = gpt(
        _whole(cells, "layers"), _whole(cells, "hidden size"), _whole(cells, "attention heads"),
        _whole(cells, "sequence length"), _whole(cells, "vocabulary", VOCABULARY),
    )  # fmt: skip
    layout = Layout(
        data=_whole(cells, "data parallelism"),
        tensor=_whole(cells, "tensor parallelism"),
        pipeline=_whole(cells, "pipeline parallelism"),
        virtual=_whole(cells, "virtual stages", 1),
        micro_batch=_whole(cells, "micro batch"),
        sequence_parallel=_truth(cells, "sequence parallel"),
        recompute=_recompute(cells),
    )
    if layout.gpus != (gpus := _whole(cells, "gpus")):
        raise ValueError(f"{gpus} GPUs, but the degrees of parallelism make {layout.gpus}")
    sized, batch = cluster.holding(layout.gpus), _whole(cells, "global batch")
    for refusal in refusals(shape, layout, sized, batch):
        if refusal.code not in _MEASURED_ANYWAY:
            raise ValueError(refusal.sentence)
        doubtful[refusal.sentence] += 1
    return Row(shape, layout, batch, _seconds(cells), step_time(shape, layout, sized, recipe, batch).total)


def _whole(cells: Mapping[str, str], column: str, otherwise: int = 0) -> int:
    text = cells.get(column, "")
    if not text:
        if otherwise:
            return otherwise
        raise ValueError(f"the column {column} is empty")
    number = _number(column, text)
    if number < 1 or not number.is_integer():
        raise ValueError(f"{column} is {text!r}; it must be a whole number of at least 1")
    return int(number)


def _seconds(cells: Mapping[str, str]) -> float:
    number = _number("iteration time (ms)", cells["iteration time (ms)"])
    if not 0 < number < float("inf"):
        raise ValueError(f"iteration time (ms) is {cells['iteration time (ms)']!r}; it must be more than 0")
    return number / 1_000


def _number(column: str, text: str) -> float:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        raise ValueError(f"{column} is {text!r}, which is no number") from None


def _truth(cells: Mapping[str, str], column: str) -> bool:
    text = cells.get(column, "").lower()
    if text not in _TRUTHS:
        raise ValueError(f"{column} is {text!r}; it is yes or no")
    return _TRUTHS[text]


def _recompute(cells: Mapping[str, str]) -> Recompute:
    text = cells.get("recompute", "").lower() or Recompute.FULL.value
    if text not in tuple(Recompute):
        raise ValueError(f"recompute is {text!r}; it is {', '.join(Recompute)}")
    return Recompute(text)
