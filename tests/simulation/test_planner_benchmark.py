"""The planner's benchmark on a few measured steps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from benchmarks.planner import main

COLUMNS = (
    "# GPUs,global batch,micro batch,hidden size,attention heads,# layers,sequence length,"
    "tensor parallelism,data parallelism,pipeline parallelism,iteration time (ms)"
)
ROWS = (
    "64,512,8,3072,32,30,2048,1,64,1,3566.5",
    "64,512,4,3072,32,30,2048,4,16,1,4764",
    "8,16,2,1024,16,24,1024,1,8,1,171",
)


def run(tmp_path: Path, text: str, *options: str) -> Result:
    table = tmp_path / "steps.csv"
    table.write_text(text)
    return CliRunner().invoke(main, ["--rows", str(table), "--gpu", "a100-80gb", *options])


def test_a_table_gets_one_line_with_its_errors_and_the_regret_of_each_choice(tmp_path: Path) -> None:
    result = run(tmp_path, "\n".join([COLUMNS, *ROWS[:2]]), "--network-gbit", "800")
    assert result.exit_code == 0
    line = json.loads(result.output)
    assert line["rows"] == 2
    assert 0 < line["mape"] < 20
    assert abs(line["worst"]) >= line["mape"]
    assert {"bias", "mape_leave_one_out", "worst_leave_one_out", "calibration"} <= set(line)
    assert line["regret"] == {"worst": 0.0, "3.56 B, batch 512, 64 GPUs": 0.0}


def test_the_columns_that_a_table_may_have_change_the_prediction(tmp_path: Path) -> None:
    columns = f"{COLUMNS},vocabulary,virtual stages,recompute,sequence parallel"
    biases = [
        json.loads(run(tmp_path, f"{columns}\n64,64,1,12288,96,96,2048,8,1,8,18130,{more}\n").output)["bias"]
        for more in (
            "51200,3,full,no",
            "51200,3,full,yes",
            "51200,1,full,no",
            "51200,3,selective,yes",
            "8192,3,full,no",
            ",,,",
        )
    ]
    assert len(set(biases)) == 5
    assert biases[2] == biases[5]
    assert abs(biases[0]) < 3


def test_titles_may_be_spelt_otherwise_and_strange_columns_are_named(tmp_path: Path) -> None:
    titles = (
        "\ufeffNum_GPUs,Global Batch Size,micro_batch,Hidden-Size,heads,num_layers,Seq_Length,TP,dp,"
        "Pipeline_Parallel,Iteration_Time_(ms),Vocab_Size,Sequence_Parallelism,cluster"
    )
    usual = json.loads(run(tmp_path, f"{COLUMNS}\n{ROWS[0]}").output)
    other = json.loads(run(tmp_path, f'{titles}\n{ROWS[0]},"51,200",False,selene\n,,,,,,,,,,,,,\n').output)
    assert other.pop("columns_not_read") == ["cluster"]
    assert other == usual


def test_a_measured_layout_that_the_planner_would_not_offer_is_predicted_with_the_reason(
    tmp_path: Path,
) -> None:
    columns = f"{COLUMNS},virtual stages"
    line = json.loads(run(tmp_path, f"{columns}\n16,15,1,1024,16,25,1024,1,1,16,300,2").output)
    assert line["rows"] == 1
    assert line["doubtful"] == {
        "needs 32 chunks of layers; there are 25": 1,
        "25 layers cannot be divided by 32 chunks": 1,
        "15 micro-batches cannot be divided by 16 stages": 1,
    }


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            f"{COLUMNS}\n8,16,2,1024,16,24,1024,1,4,1,171",
            "line 2: 8 GPUs, but the degrees of parallelism make 4",
        ),
        ("# GPUs\n8", "lacks the columns global batch, micro batch, hidden size"),
        (f"{COLUMNS},tp\n{ROWS[0]},1", "has the column tensor parallelism more than once"),
        (f"{COLUMNS}\n64,,8,3072,32,30,2048,1,64,1,3566.5", "line 2: the column global batch is empty"),
        (
            f"{COLUMNS}\n\n64,many,8,3072,32,30,2048,1,64,1,3",
            "line 3: global batch is 'many', which is no number",
        ),
        (
            f"{COLUMNS}\n64,512,0.5,3072,32,30,2048,1,64,1,3",
            "micro batch is '0.5'; it must be a whole number",
        ),
        (
            f"{COLUMNS}\n64,512,8,3072,32,30,2048,1,64,1,0",
            "iteration time (ms) is '0'; it must be more than 0",
        ),
        (
            f"{COLUMNS},recompute\n{ROWS[0]},some",
            "recompute is 'some'; it is none, selective, operators, full",
        ),
        (f"{COLUMNS},sequence parallel\n{ROWS[0]},maybe", "sequence parallel is 'maybe'; it is yes or no"),
        (
            f"{COLUMNS}\n8,20,2,1024,16,24,1024,1,8,1,171",
            "20 samples cannot be divided by 16 data ranks x micro-batch",
        ),
        (COLUMNS, "has no rows"),
    ],
)
def test_a_table_that_cannot_be_read_says_where_and_why(tmp_path: Path, text: str, sentence: str) -> None:
    result = run(tmp_path, text)
    assert result.exit_code == 1
    assert sentence in result.output


def test_newer_gpus_run_newer_software_and_an_unknown_one_is_named(tmp_path: Path) -> None:
    text = f"{COLUMNS}\n{ROWS[0]}"
    default, same, older = (
        json.loads(run(tmp_path, text, "--gpu", "h100", *options).output)["bias"]
        for options in ((), ("--recipe", "modern"), ("--recipe", "megatron"))
    )
    assert default == same < older
    unknown = run(tmp_path, text, "--gpu", "abacus")
    assert unknown.exit_code == 1
    assert "'abacus' is not a known GPU" in unknown.output


def test_ten_rows_of_many_calibrate_the_others(tmp_path: Path) -> None:
    line = json.loads(run(tmp_path, "\n".join([COLUMNS, *ROWS * 8])).output)
    assert line["rows"] == 24
    assert line["mape_few_rows"] > 0


def test_the_figure_has_a_dot_for_each_row(tmp_path: Path) -> None:
    figure = tmp_path / "steps.svg"
    assert run(tmp_path, "\n".join([COLUMNS, *ROWS]), "--figure", str(figure)).exit_code == 0
    assert figure.read_text().count("<circle") == 3


def test_published_figures_and_the_search_get_a_line_each() -> None:
    result = CliRunner().invoke(main, ["--published"])
    lines = [json.loads(line) for line in result.output.splitlines()]
    assert [line for line in lines if "search" in line] == lines[-1:]
    sources = {line["source"] for line in lines[:-1]}
    assert sources - {"torchtitan 2024"} == {
        "Korthikanti 2022, table 5",
        "torchtitan",
        "Llama 3, table 4",
    }


def test_nothing_to_do_is_said() -> None:
    assert "give --rows FILE or --published" in CliRunner().invoke(main, []).output
