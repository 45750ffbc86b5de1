"""`import trainmaster` in scripts that run as processes of their own."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sdk.scripts import attempt_folder, environment, events, run

LOOP = """
import trainmaster

trainmaster.init(total_steps=4, params={"lr": 0.1}, seed=3, resume=RESUME)
resumed = trainmaster.load_checkpoint()
state, done = resumed if resumed else ({"sum": 0}, 0)
for step in range(done + 1, 5):
    state["sum"] += step
    trainmaster.log(step, loss=1 / step)
    if trainmaster.checkpoint_due(step, every=2):
        trainmaster.save_checkpoint(state, step, loss=1 / step)
print("sum", state["sum"])
"""


def script(folder: Path, text: str, resume: object = "") -> str:
    (folder / "loop.py").write_text(text.replace("RESUME", repr(resume)))
    return "loop.py"


def test_one_script_runs_alone_and_as_a_job(tmp_path: Path) -> None:
    name = script(tmp_path, LOOP)
    alone = run([name], tmp_path)
    assert "step 4/4 · loss 0.25" in alone.stdout
    attempt = attempt_folder(tmp_path / "attempt")
    run([name], tmp_path, TRAINMASTER_DIR=attempt, TRAINMASTER_HYPERPARAMETERS='{"width": 8}')
    said = events(attempt / "spool" / "rank-0.jsonl")
    kinds = [event["kind"] for event in said]
    first, rest = ["metrics", "milestone", "metrics"], ["metrics", "metrics"]
    assert [kind for kind in kinds if kind != "checkpoint"] == [
        "init",
        "milestone",  # loaded
        *[*first, "checkpoint_started"],
        *[*rest, "checkpoint_started"],
    ]
    assert kinds.count("checkpoint") == 2  # each when its bytes are safe, while the training goes on
    assert said[0]["params"] == {"width": 8, "lr": 0.1}


def test_names_that_python_lacks_are_logged_from_a_dict(tmp_path: Path) -> None:
    calls = 't.log(1, {"train/loss": 2.0, "lr": 0.5}, slope=3.0); t.log(2, values=4.0)'
    run([script(tmp_path, f"import trainmaster as t; t.init(); {calls}")], tmp_path)
    said = events(tmp_path / "trainmaster-runs" / "loop-1" / "events.jsonl")
    logged = [event for event in said if event["kind"] == "metrics"]
    assert [event["values"] for event in logged] == [
        {"train/loss": 2.0, "lr": 0.5, "slope": 3.0},
        {"values": 4.0},
    ]


@pytest.mark.parametrize(("resume", "variable"), [(True, ""), ("", "auto")])
def test_an_ended_run_is_resumed_when_asked(tmp_path: Path, resume: object, variable: str) -> None:
    run([script(tmp_path, LOOP.replace("range(done + 1, 5)", "range(done + 1, 3)"))], tmp_path)
    done = run([script(tmp_path, LOOP, resume)], tmp_path, TRAINMASTER_RESUME=variable)
    assert "resumed from step 2" in done.stdout
    assert "sum 10" in done.stdout


def test_hyperparameters_and_data_may_be_asked_for_before_init(tmp_path: Path) -> None:
    text = 'import trainmaster as t; print(t.hyperparameters(), t.data_dir(), t.data_dir("mine")); t.init(name="x")'
    (tmp_path / "ask.py").write_text(text)
    done = run(["ask.py"], tmp_path, TRAINMASTER_HYPERPARAMETERS='{"lr": 1}')
    assert "{'lr': 1} data mine" in done.stdout
    assert (tmp_path / "trainmaster-runs" / "x-1").is_dir()


def test_importing_it_does_not_import_torch(tmp_path: Path) -> None:
    (tmp_path / "light.py").write_text(
        "import sys, trainmaster\ntrainmaster.init(seed=1)\ntrainmaster.log(1, loss=1)\ntrainmaster.should_stop()\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules and 'httpx' not in sys.modules\n"
    )
    run(["light.py"], tmp_path)


PATIENT = """
import sys, trainmaster
trainmaster.init()
steps = 0
while not trainmaster.should_stop():
    steps += 1
    if steps == 1:
        print("training", flush=True)
print("left the loop")
"""


def test_sigterm_lets_the_loop_end_by_itself(tmp_path: Path) -> None:
    (tmp_path / "patient.py").write_text(PATIENT)
    command = [sys.executable, "patient.py"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert any(line == "training\n" for line in process.stdout)
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == "left the loop\n"
        assert process.wait(timeout=30) == 0


def test_a_script_that_never_asks_still_ends_by_sigterm(tmp_path: Path) -> None:
    (tmp_path / "deaf.py").write_text(
        "import signal, trainmaster\ntrainmaster.init()\nprint('up', flush=True)\nsignal.pause()\n"
    )
    command = [sys.executable, "deaf.py"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert any(line == "up\n" for line in process.stdout)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == -signal.SIGTERM


def test_a_state_that_would_run_code_when_loaded_is_refused_when_saved(tmp_path: Path) -> None:
    (tmp_path / "unsafe.py").write_text(
        "import pathlib, trainmaster\ntrainmaster.save_checkpoint({'where': pathlib.PurePosixPath('/')}, 1)\n"
    )
    done = run(["unsafe.py"], tmp_path, fails=True)
    assert done.returncode == 1
    assert "CheckpointNotSaved: The checkpoint of step 1 was not saved" in done.stderr
    assert "pathlib.PurePosixPath" in done.stderr
    assert not (tmp_path / "trainmaster-runs" / "unsafe-1" / "checkpoints").exists()
