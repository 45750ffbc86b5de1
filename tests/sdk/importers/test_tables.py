"""Tables of Excel, pandas and W&B's page are read as their writers meant them, or refused with the line."""

import math
from pathlib import Path

import pytest

from trainmaster.importers.runs import Point, SourceError, SourceRun
from trainmaster.importers.wandb import runs_of

PLAIN = "_step,_timestamp,loss\n100,1700000000.5,0.5\n200,1700000010.5,0.25\n"
CHART = (
    '"Step","a - loss","a - loss__MIN","a - loss__MAX","b - loss","b - loss__MIN","b - loss__MAX"\n'
    '"0","1.5","1.5","1.5","","",""\n"1","0.5","0.25","0.75","2","2","2"\n'
)


def points_of(run: SourceRun) -> list[tuple[str, int, float]]:
    return [(point.key, point.step, point.value) for point in run.content() if isinstance(point, Point)]


def read(folder: Path, data: bytes, name: str = "history.csv") -> list[SourceRun]:
    file = folder / name
    file.write_bytes(data)
    return runs_of(file, "exported")


@pytest.mark.parametrize(
    "data",
    [
        PLAIN.encode(),
        PLAIN.encode("utf-8-sig"),
        PLAIN.encode("utf-16"),
        b"\xff\xfe" + PLAIN.encode("utf-16-le"),
        b"\xfe\xff" + PLAIN.encode("utf-16-be"),
        PLAIN.replace("\n", "\r\n").encode(),
        PLAIN.replace(",", ";").encode(),
        PLAIN.replace(",", "\t").encode(),
        PLAIN.replace(",", ";").replace(".", ",").encode(),
        b"sep=;\r\n" + PLAIN.replace(",", ";").replace("\n", "\r\n").encode("utf-8"),
        PLAIN.replace("_step", "Step").encode(),
        b",_step,_timestamp,loss\n0,100,1700000000.5,0.5\n1,200,1700000010.5,0.25\n",
        b"Unnamed: 0,_step,_timestamp,loss\n0,100.0,1700000000.5,0.5\n1,200.0,1700000010.5,0.25\n",
        b'"_step","_timestamp","loss"\n\n"100","1700000000.5","0.5"\n"200","1700000010.5","2.5e-1"\n\n',
        b"_step,_timestamp,loss,other\n100,1700000000.5,0.5,\n200,1700000010.5,0.25,N/A\n",
    ],
)
def test_a_history_is_read_in_every_dialect_that_its_writers_have(tmp_path: Path, data: bytes) -> None:
    [run] = read(tmp_path, data)
    assert points_of(run) == [("loss", 100, 0.5), ("loss", 200, 0.25)]
    assert (run.started_ms, run.ended_ms) == (1_700_000_000_500, 1_700_000_010_500)


def test_values_that_are_not_finite_and_empty_cells_are_told_apart(tmp_path: Path) -> None:
    [run] = read(tmp_path, b'_step,a,b,note\n0,NaN,Infinity,"two\nlines, and a comma"\n1,,-inf,\n')
    values = points_of(run)
    assert [(key, step) for key, step, _ in values] == [("a", 0), ("b", 0), ("b", 1)]
    assert math.isnan(values[0][2])
    assert [value for _, _, value in values[1:]] == [math.inf, -math.inf]
    assert [content.document for content in run.content() if not isinstance(content, Point)] == [
        {"text": "two\nlines, and a comma"}
    ]


def test_a_chart_of_the_page_gives_each_of_its_runs_without_the_bounds(tmp_path: Path) -> None:
    runs = {run.name: points_of(run) for run in read(tmp_path, CHART.encode())}
    assert runs == {"a": [("loss", 0, 1.5), ("loss", 1, 0.5)], "b": [("loss", 1, 2.0)]}


def test_charts_of_the_same_runs_are_one_run_each(tmp_path: Path) -> None:
    (tmp_path / "loss.csv").write_text(CHART)
    (tmp_path / "acc.csv").write_text(CHART.replace("loss", "acc"))
    runs = {run.name: {key for key, _, _ in points_of(run)} for run in runs_of(tmp_path, "exported")}
    assert runs == {"a": {"loss", "acc"}, "b": {"loss", "acc"}}


def test_a_table_and_json_lines_of_one_name_are_two_runs(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(PLAIN)
    (tmp_path / "a.jsonl").write_text('{"_step": 3, "loss": 1}\n')
    assert len({run.identity for run in runs_of(tmp_path, "exported")}) == 2


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"_step,_timestamp,loss\n100\n200,1700000010.5,0.25,9,9\n", "line 2 of"),
        (b"_step,loss\n1,0.5\n2,0.25,9\n", "line 3 of"),
        (b"_step,loss\n1,0.5\n,0.25\n", "line 3 of"),
        (b"_step,loss\n1.5,0.5\n", "line 2 of"),
        (b"_step,loss\ninf,0.5\n", "line 2 of"),
        (b"_step,loss\n1e30,0.5\n", "line 2 of"),
        (b"loss,acc\n1,2\n", "no column of steps"),
        (b"Relative Time (Process),a - loss\n1,2\n", "no column of steps"),
        (b'_step,loss\n1,"0,5"\n', "line 2 of"),
        (b"_step;loss;acc\n1;0,5;1\n2;0.5;1\n", "line 2 of"),
        (b"_step,loss\n1,0.5\n2,oops\n", "line 3 of"),
        (b"_step,loss,loss\n1,2,3\n", "twice"),
        (b"_step,loss,\n1,2,3\n", "names no column 3"),
        (b"_step,loss\n", "no rows"),
        (b"", "no lines"),
        (b"_step,loss\n1,\n", "no values"),
        (b"_step,loss\n1,0.5\n2,\xff\n", "line 3 of"),
        (b"_step,loss\n1,0\x005\n", "NUL"),
        (b'_step,note\n1,"open\n', "line"),
        ("_step,loss\n1,0.5\n".encode("utf-16-le"), "NUL"),
        (b"_step,loss\n1,1_000\n2,3\n", "line 2 of"),
    ],
)
def test_a_table_that_can_be_misread_is_refused_with_its_file_and_line(
    tmp_path: Path, data: bytes, sentence: str
) -> None:
    with pytest.raises(SourceError) as refused:
        read(tmp_path, data)
    assert sentence in str(refused.value)
    assert "history.csv" in str(refused.value)


@pytest.mark.parametrize("line", ['{"loss": 1}', '{"_step": "x", "loss": 1}', '{"_step": NaN}', "[" * 9_000])
def test_a_line_of_json_without_a_step_is_refused(tmp_path: Path, line: str) -> None:
    with pytest.raises(SourceError, match=r"line 2 of .*history\.jsonl"):
        read(tmp_path, f'{{"_step": 0, "loss": 1}}\n{line}\n'.encode(), "history.jsonl")
