"""The tables of benchmarks/results: what is kept is not replayed again, and each goal is judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks import scheduler_table
from benchmarks.scheduler_table import BEGIN, END, Line, goals, tasks

TRACE = "submit_s,gpus,duration_s\n0,8,100\n10,16,50\n20,1,20\n"


def test_a_run_that_was_interrupted_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, kept = tmp_path / "page.md", tmp_path / "lines.jsonl"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    (tmp_path / "tiny.csv").write_text(TRACE)
    monkeypatch.setattr(scheduler_table, "CASES", (("tiny", "", 2),))
    monkeypatch.setattr(scheduler_table, "PAGE", page)
    monkeypatch.setattr(scheduler_table, "PLOT", tmp_path / "plot.svg")
    arguments = ["--traces", str(tmp_path), "--lines", str(kept), "--processes", "1"]
    told = CliRunner().invoke(scheduler_table.main, arguments, catch_exceptions=False)
    assert len(told.output.splitlines()) == len(tasks()) == len(kept.read_text().splitlines())
    lines = kept.read_text().splitlines()
    kept.write_text("\n".join(lines[:-2]) + "\n")
    told = CliRunner().invoke(scheduler_table.main, arguments, catch_exceptions=False)
    assert len(told.output.splitlines()) == 2
    written = page.read_text()
    assert (written.splitlines()[0], written.splitlines()[-1]) == ("before", "after")
    assert "old" not in written
    assert "| tiny | 2 | factor:1-5 | ours |" in written


def _lines(**means: float) -> list[Line]:
    """Every job runs for 60 s; p99 is a tenth of the mean, and nobody is large."""
    about: dict[str, Any] = {"trace": "t", "window": "", "nodes": 8, "estimates": "factor:1-5"}
    sizes = {"9+": {"mean_jct_s": None}}
    return [
        {**about, "policy": name, "mean_jct_s": mean, "mean_queue_s": mean - 60, "p99_queue_s": mean / 10,
         "by_size": sizes, "preemptions": 0}
        for name, mean in means.items()
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("ours", "las_8h", "against_all", "against_the_stronger"),
    [
        (75, 100, "met", "met"),
        (75, 80, "met", "misses mean"),
        (75, 74, "met", "misses mean (nobody could), p99"),
        (101, 100, "misses mean, p99", "misses mean, p99"),
    ],
)
def test_each_goal_is_judged_against_the_baselines_and_the_stronger_variant(
    ours: float, las_8h: float, against_all: str, against_the_stronger: str
) -> None:
    told = goals(_lines(fifo=200, skip=150, easy=110, las=100, las_8h=las_8h, srtf=70, ours=ours))
    assert [row.split(" | ")[-1].removesuffix(" |") for row in told[2:]] == [
        against_all,
        against_the_stronger,
    ]
