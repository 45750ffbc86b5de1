"""Runs outside the platform: sent while they run, kept when nobody listens, sent exactly once."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.sdk.run_server import TOKEN, RunServer, serving, unused_port
from tests.sdk.scripts import environment, run
from trainmaster.cli import main

LOOP = """
import trainmaster

run = trainmaster.init(total_steps=STEPS, params={"lr": 0.1}, name="first", experiment="digits", team="vision",
                       tags={"stage": "try"}, group="seeds")
print("id", run.id, flush=True)
for step in range(STEPS):
    run.log(step, loss=1 / (step + 1), acc=step)
"""


@pytest.fixture
def server() -> Iterator[RunServer]:
    with serving(RunServer()) as kept:
        yield kept


def script(folder: Path, text: str, steps: int = 100) -> str:
    (folder / "train.py").write_text(text.replace("STEPS", str(steps)))
    return "train.py"


def logged_in(url: str) -> dict[str, object]:
    return {"TRAINMASTER_URL": url, "TRAINMASTER_TOKEN": TOKEN}


def sync(server: RunServer, *words: str | Path, code: int = 0) -> Result:
    variables = {"TRAINMASTER_URL": server.url, "TRAINMASTER_TOKEN": TOKEN}
    result = CliRunner().invoke(main, ["sync", *map(str, words)], env=variables)
    assert result.exit_code == code, result.output
    return result


def expected(steps: int) -> list[tuple[str, int, float]]:
    return sorted([("loss", n, 1 / (n + 1)) for n in range(steps)] + [("acc", n, n) for n in range(steps)])


def runs_folder(folder: Path) -> Path:
    [path] = (folder / "trainmaster-runs").iterdir()
    return path


def test_a_run_on_a_laptop_is_on_the_platform_when_it_ends(server: RunServer, tmp_path: Path) -> None:
    done = run([script(tmp_path, LOOP)], tmp_path, **logged_in(server.url))
    [run_id] = server.runs
    assert f"watch this run at {server.url}/runs/{run_id}" in done.stdout
    assert f"id {run_id}" in done.stdout
    kept = server.run
    assert sorted(kept.points) == expected(100)
    assert kept.fields | {"run_id": ""} == {
        "run_id": "", "team": "vision", "experiment": "digits", "name": "first", "group": "seeds", "source": "sdk",
    }  # fmt: skip
    assert kept.parameters == {"lr": 0.1}
    assert kept.tags == {"stage": "try"}
    assert kept.lineage["command"][1:] == ["train.py"]
    assert "python" in kept.lineage["packages"]
    assert kept.states == ["running", "succeeded"]
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("ending", "state"),
    [
        ("raise ValueError('no data')", "failed"),
        ("import sys; sys.exit(3)", "failed"),
        ("import sys; sys.exit(0)", "succeeded"),
        ("raise KeyboardInterrupt", "cancelled"),
        ("run.finish('failed')", "failed"),
        ("with run: pass", "succeeded"),
        ("try:\n    with run: 1 / 0\nexcept ZeroDivisionError: pass", "failed"),
    ],
)
def test_the_way_a_script_ends_is_the_state_of_its_run(
    server: RunServer, tmp_path: Path, ending: str, state: str
) -> None:
    run([script(tmp_path, LOOP + ending, 3)], tmp_path, fails=True, **logged_in(server.url))
    assert server.run.states == ["running", state]
    assert len(server.run.points) == 6


def test_without_a_login_the_run_waits_for_sync(server: RunServer, tmp_path: Path) -> None:
    run([script(tmp_path, LOOP)], tmp_path)
    assert server.requests == []
    sync(server, tmp_path / "trainmaster-runs", "--team", "nlp", "--experiment", "mine")
    assert server.run.fields["team"] == "nlp"
    assert server.run.fields["experiment"] == "mine"
    assert sorted(server.run.points) == expected(100)
    assert server.run.states == ["running", "succeeded"]


def test_the_same_sync_twice_sends_nothing_twice(server: RunServer, tmp_path: Path) -> None:
    run([script(tmp_path, LOOP)], tmp_path)
    sync(server, tmp_path / "trainmaster-runs")
    asked = len(server.requests)
    assert "nothing was left to send" in sync(server, tmp_path / "trainmaster-runs").output
    assert len(server.requests) == asked
    assert sorted(server.run.points) == expected(100)


def test_the_example_tracks_a_run(server: RunServer, tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "examples" / "track_anything.py"
    done = run([str(example), "--rate", "0.1"], tmp_path, **logged_in(server.url))
    assert "y = 2.0" in done.stdout
    kept = server.run
    assert (kept.states[-1], kept.parameters, len(kept.points)) == ("succeeded", {"rate": 0.1}, 400)
    assert [key for key, _, _ in kept.values] == ["errors"] * 4 + ["predictions"]


def test_offline_is_a_choice(server: RunServer, tmp_path: Path) -> None:
    run([script(tmp_path, LOOP, 3)], tmp_path, TRAINMASTER_OFFLINE=1, **logged_in(server.url))
    assert server.requests == []


def test_a_platform_that_is_away_costs_one_warning_and_no_point(tmp_path: Path) -> None:
    port = unused_port()
    done = run([script(tmp_path, LOOP)], tmp_path, **logged_in(f"http://127.0.0.1:{port}"))
    assert done.stderr.count("cannot be reached") == 1
    assert "trainmaster sync trainmaster-runs/first-1" in done.stderr
    with serving(RunServer(), port) as server:
        sync(server, tmp_path / "trainmaster-runs" / "first-1")
        assert sorted(server.run.points) == expected(100)
        assert server.run.states == ["running", "succeeded"]


PAUSING = LOOP.replace("    run.log(", "    step == STEPS // 2 and input()\n    run.log(")


def begin(folder: Path, text: str, url: str, steps: int = 100) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, script(folder, text, steps)],
        cwd=folder, env=environment(**logged_in(url)), text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def test_a_run_goes_on_live_when_the_platform_is_back(tmp_path: Path) -> None:
    kept, arrived = RunServer(), threading.Event()
    port = unused_port()
    process = begin(tmp_path, PAUSING, f"http://127.0.0.1:{port}")
    assert process.stdout is not None
    assert process.stdout.readline()  # it has begun, without the platform
    kept.hook = lambda method, path: arrived.set() or True
    with serving(kept, port):
        assert arrived.wait(60)
        _, error = process.communicate("\n", timeout=60)
        assert process.returncode == 0, error
        assert sorted(kept.run.points) == expected(100)
        assert kept.run.states == ["running", "succeeded"]


def test_a_process_killed_in_mid_send_is_sent_exactly_once(tmp_path: Path) -> None:
    """The platform keeps a batch, and the process dies before it hears so."""
    kept = RunServer()

    def kill(method: str, path: str) -> bool:
        if path.endswith("/log") and kept.run.points:
            process.kill()
            process.wait()
            return False
        return True

    with serving(kept):
        process = begin(tmp_path, PAUSING, kept.url)
        kept.hook = kill
        process.wait(60)
        assert process.returncode == -signal.SIGKILL
        before = sorted(kept.run.points)
        assert before
        kept.hook = lambda method, path: True
        folder = runs_folder(tmp_path)
        cursor = json.loads((folder / "sent.json").read_text())
        assert cursor["planned"] > cursor["offset"]
        with (folder / "events.jsonl").open("a") as spool:  # what came behind the batch, and a torn line
            spool.write('{"kind": "metrics", "at_ms": 1, "step": 777, "values": {"late": 1}}\n{"kind": "metr')
        sync(kept, folder)
        steps = sum(key == "loss" for key, _, _ in kept.run.points)
        assert sorted(kept.run.points) == sorted([*expected(steps), ("late", 777, 1)])
        assert kept.run.states == ["running", "failed"]
        sync(kept, folder)
        assert len(kept.run.points) == 2 * steps + 1
        assert kept.run.states == ["running", "failed"]
    for stream in (process.stdin, process.stdout, process.stderr):
        assert stream is not None
        stream.close()


def test_an_answer_that_is_lost_repeats_the_same_batch(tmp_path: Path) -> None:
    kept = RunServer()
    lost: list[str] = []

    def lose_once(method: str, path: str) -> bool:
        if path.endswith("/log") and kept.run.points and not lost:
            lost.append(path)
            return False
        return True

    kept.hook = lose_once
    with serving(kept):
        process = begin(tmp_path, PAUSING, kept.url)
        while not lost:
            assert process.poll() is None
        process.communicate("\n", timeout=60)
    assert lost
    assert sorted(kept.run.points) == expected(100)


def test_sync_leaves_a_living_run_to_its_process(server: RunServer, tmp_path: Path) -> None:
    process = begin(tmp_path, PAUSING, server.url)
    assert process.stdout is not None
    while not process.stdout.readline().startswith("id "):
        pass
    assert "still runs" in sync(server, tmp_path / "trainmaster-runs").output
    process.communicate("\n", timeout=60)
    assert sorted(server.run.points) == expected(100)


def test_a_point_that_the_platform_refuses_costs_itself_and_no_other(
    server: RunServer, tmp_path: Path
) -> None:
    def refuse(method: str, path: str, body: Any) -> tuple[int, Any] | None:
        bad = path.endswith("/log") and any(series["key"] == "bad" for series in body.get("metrics", ()))
        return (400, {"code": "request_invalid", "detail": "bad is not a name"}) if bad else None

    server.refuse = refuse
    done = run(
        [script(tmp_path, LOOP + "    step == 40 and run.log(step, bad=1)\n")],
        tmp_path,
        **logged_in(server.url),
    )
    assert sorted(server.run.points) == expected(100)
    assert done.stderr.count("was refused") == 1


def test_a_token_that_is_refused_costs_one_sentence(server: RunServer, tmp_path: Path) -> None:
    done = run(
        [script(tmp_path, LOOP, 3)], tmp_path, TRAINMASTER_URL=server.url, TRAINMASTER_TOKEN="tm_expired"
    )
    assert done.stderr.count("trainmaster:") == 1
    assert "Run `trainmaster login`" in done.stderr
    sync(server, tmp_path / "trainmaster-runs")
    assert len(server.run.points) == 6


FORKS = """
import os, sys, trainmaster
run = trainmaster.init(name="forks")
run.log(1, loss=1.0)
pid = os.fork()
if pid == 0:
    run.log(2, loss=2.0)
    sys.exit(0)  # its atexit must not end the run
os.waitpid(pid, 0)
run.log(3, loss=3.0)
"""


def test_a_fork_neither_sends_nor_ends_the_run(server: RunServer, tmp_path: Path) -> None:
    (tmp_path / "forks.py").write_text(FORKS)
    run(["forks.py"], tmp_path, **logged_in(server.url))
    assert sorted(step for _, step, _ in server.run.points) == [1, 2, 3]
    assert server.run.states == ["running", "succeeded"]


WORKERS = """
import multiprocessing, trainmaster

def work(number):
    trainmaster.init()
    trainmaster.log(number, loss=number)
    return number

if __name__ == "__main__":
    trainmaster.init(name="main")
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        print(pool.map(work, [1, 2]))
    trainmaster.log(0, loss=0)
"""


def test_workers_of_a_data_loader_make_no_runs(server: RunServer, tmp_path: Path) -> None:
    (tmp_path / "workers.py").write_text(WORKERS)
    run(["workers.py"], tmp_path, **logged_in(server.url))
    assert server.run.points == [("loss", 0, 0)]


@pytest.mark.parametrize("rank", [0, 1])
def test_of_several_ranks_only_the_first_sends(server: RunServer, tmp_path: Path, rank: int) -> None:
    run([script(tmp_path, LOOP, 3)], tmp_path, RANK=rank, WORLD_SIZE=2, **logged_in(server.url))
    assert len(server.runs) == (rank == 0)


def test_a_resumed_run_goes_on_as_the_same_run(server: RunServer, tmp_path: Path) -> None:
    text = """
import trainmaster
run = trainmaster.init(resume=True)
state, step = trainmaster.load_checkpoint() or ({}, 0)
run.log(step + 1, loss=1.0)
trainmaster.save_checkpoint({}, step + 1)
"""
    for _ in range(2):
        run([script(tmp_path, text)], tmp_path, **logged_in(server.url))
    assert [step for _, step, _ in server.run.points] == [1, 2]
    assert server.run.states == ["running", "succeeded", "running", "succeeded"]


NOT_FINITE = """
import math, trainmaster
run = trainmaster.init(params={"api": "s3cr3t-value"})
run.log(1, loss=math.nan, up=math.inf, down=-math.inf)
run.summary["best"] = 0.5
run.log_artifact("notes.txt")
run.use_dataset("vision/digits")
"""


def test_what_a_run_is_made_of_has_no_secret_of_the_environment(server: RunServer, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(NOT_FINITE)
    (tmp_path / "notes.txt").write_text("kept")
    for words in (["init", "-q"], ["add", "train.py", "notes.txt"],
                  ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"]):  # fmt: skip
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    (tmp_path / "notes.txt").write_text("kept\ntoken s3cr3t-value")
    run(
        ["train.py", "--api-key", "abc", "--token=def"],
        tmp_path,
        MY_TOKEN="s3cr3t-value",
        **logged_in(server.url),
    )
    kept = server.run
    assert {key: value for key, _, value in kept.points} == {
        "loss": "NaN", "up": "Infinity", "down": "-Infinity", "best": 0.5,
    }  # fmt: skip
    assert kept.lineage["command"][1:] == ["train.py", "--api-key", "•••", "--token=•••"]
    assert kept.lineage["dataset"] == "vision/digits"
    assert len(kept.lineage["git_commit"]) == 40
    assert b"+token \xe2\x80\xa2" in kept.files["uncommitted.diff"]
    assert kept.files["notes.txt"] == b"kept\ntoken s3cr3t-value"  # what a person hands over is theirs
    assert kept.parameters == {"api": "•••MY_TOKEN•••"}
    assert "s3cr3t-value" not in json.dumps([kept.lineage, kept.parameters, kept.tags])
