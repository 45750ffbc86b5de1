"""`python -m trainmaster.rank`, as torchrun calls it for the agent."""

import json
from pathlib import Path

from tests.sdk.scripts import attempt_folder, run


def ended(attempt: Path, rank: int = 0) -> dict[str, object]:
    found: dict[str, object] = json.loads((attempt / "ranks" / f"rank-{rank}.exit").read_text())
    return found


def rank(attempt: Path, *words: str, fails: bool = False, number: int = 0) -> str:
    """The log of the rank."""
    run(
        ["-m", "trainmaster.rank", *words],
        attempt / "code",
        fails=fails,
        TRAINMASTER_DIR=attempt,
        RANK=number,
        WORLD_SIZE=number + 1,
    )
    return (attempt / "logs" / f"rank-{number}.log").read_text()


def test_everything_a_rank_and_its_children_print_is_in_its_own_log(tmp_path: Path) -> None:
    attempt = attempt_folder(tmp_path / "attempt")
    (attempt / "code" / "train.py").write_text(
        "import os, sys, neighbour\nprint('out', sys.argv, __name__)\nprint('err', file=sys.stderr)\n"
        "os.system('echo child')\n"
    )
    (attempt / "code" / "neighbour.py").write_text("print('neighbour')")
    log = rank(attempt, "train.py", "--lr", "1", number=3)
    assert log.splitlines() == ["neighbour", "out ['train.py', '--lr', '1'] __main__", "err", "child"]
    assert ended(attempt, 3) == {"exit_code": 0, "error": ""}


def test_a_module_may_be_run_instead_of_a_script(tmp_path: Path) -> None:
    attempt = attempt_folder(tmp_path / "attempt")
    (attempt / "code" / "pack").mkdir()
    (attempt / "code" / "pack" / "train.py").write_text("import sys\nprint(__name__, sys.argv[1:])")
    assert rank(attempt, "-m", "pack.train", "x") == "__main__ ['x']\n"


def test_an_error_is_told_in_the_log_and_in_one_line(tmp_path: Path) -> None:
    attempt = attempt_folder(tmp_path / "attempt")
    (attempt / "code" / "train.py").write_text("def f():\n    raise ValueError('no data')\nf()\n")
    log = rank(attempt, "train.py", fails=True)
    assert 'train.py", line 2, in f' in log
    assert "runpy" not in log
    assert "rank.py" not in log
    assert ended(attempt) == {"exit_code": 1, "error": "ValueError: no data"}


def test_exit_codes_are_those_of_python(tmp_path: Path) -> None:
    attempt = attempt_folder(tmp_path / "attempt")
    for leaving, code in [("sys.exit(3)", 3), ("sys.exit()", 0), ("sys.exit('bad lr')", 1)]:
        (attempt / "code" / "train.py").write_text(f"import sys\n{leaving}")
        rank(attempt, "train.py", fails=True)
        assert ended(attempt)["exit_code"] == code
    assert ended(attempt)["error"] == "SystemExit: bad lr"


def test_a_missing_script_is_an_error_like_any_other(tmp_path: Path) -> None:
    attempt = attempt_folder(tmp_path / "attempt")
    assert "No such file" in rank(attempt, "gone.py", fails=True)
    assert ended(attempt)["exit_code"] == 1


def test_a_script_may_be_pickled_from_by_its_workers(tmp_path: Path) -> None:
    attempt = attempt_folder(tmp_path / "attempt")
    (attempt / "code" / "train.py").write_text(
        "import multiprocessing\n"
        "def square(x):\n    return x * x\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        "        print(pool.map(square, [3]))\n"
    )
    assert rank(attempt, "train.py") == "[9]\n"


def test_without_a_platform_it_only_runs_the_script(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('hello')")
    assert run(["-m", "trainmaster.rank", "train.py"], tmp_path).stdout == "hello\n"
    assert run(["-m", "trainmaster.rank"], tmp_path, fails=True).returncode == 2
