"""The planner's report: one command writes it, and what is committed is what the code says."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.planner_report import BEGIN, END, PAGE, TABLES, late, main
from tests.simulation.test_planner_benchmark import COLUMNS, ROWS

PLOT = "parallelism-published.svg"


@pytest.fixture
def page(tmp_path: Path) -> Path:
    page = tmp_path / "page.md"
    page.write_text(f"# Written by people\n\n{BEGIN}\n{END}\n\nAlso by people.\n")
    return page


def write(page: Path, *options: str) -> str:
    result = CliRunner().invoke(main, ["--page", str(page), *options])
    assert result.exit_code == 0, result.output
    return page.read_text()


def test_the_committed_report_is_what_the_code_predicts_now(tmp_path: Path) -> None:
    page = tmp_path / PAGE.name
    page.write_text(PAGE.read_text())
    assert write(page) == PAGE.read_text(), "run `python -m benchmarks.planner_report --tables DIR`"
    assert (tmp_path / PLOT).read_text() == (PAGE.parent / PLOT).read_text()


def test_a_table_that_is_there_gets_its_section_and_its_plot_and_the_same_bytes_again(
    page: Path, tmp_path: Path
) -> None:
    (tmp_path / TABLES[0].file).write_text("\n".join([COLUMNS, *ROWS[:2]]))
    text = write(page, "--tables", str(tmp_path))
    assert "### Measured steps: several nodes" in text
    assert "2 steps of 64 to 512 A100" in text
    assert "0.0 % for 3.56 B, batch 512, 64 GPUs" in text
    assert "### Measured steps: one node" not in text
    assert (tmp_path / TABLES[0].plot).read_text().count("<circle") == 2
    assert write(page, "--tables", str(tmp_path)) == text


def test_a_table_that_is_not_there_any_more_keeps_its_section(page: Path, tmp_path: Path) -> None:
    (tmp_path / TABLES[0].file).write_text("\n".join([COLUMNS, *ROWS[:2]]))
    text = write(page, "--tables", str(tmp_path))
    assert write(page) == text


def test_what_people_wrote_stays(page: Path) -> None:
    text = write(page)
    assert text.startswith("# Written by people\n")
    assert text.endswith("\n\nAlso by people.\n")


def test_an_error_of_a_rate_is_turned_into_one_of_the_time() -> None:
    assert late({"unit": "s", "predicted": 1.1, "published": 1.0}) == pytest.approx(10)
    assert late({"unit": "tokens/s", "predicted": 125, "published": 100}) == pytest.approx(-20)
