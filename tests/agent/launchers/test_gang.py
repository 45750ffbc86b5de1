"""Two ranks over gloo through the process launcher, on every PyTorch at hand.

Beside that of this environment those whose interpreters TRAINMASTER_TEST_PYTHONS names, separated by colons; they
need numpy, and find the SDK by PYTHONPATH.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import uuid
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

import trainmaster
from agent.attempts.preparation import NodeFacts, prepare
from agent.attempts.records import verdict_of
from agent.launchers import processes
from agent.launchers.process import ProcessLauncher
from agent.work_folder import WorkFolder, WorkFolders
from tests.agent.launchers.conftest import until_ended, until_logged
from tests.agent.launches import LAUNCH

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
PYTHONS = [sys.executable, *filter(None, os.environ.get("TRAINMASTER_TEST_PYTHONS", "").split(":"))]
SOURCES = Path(str(trainmaster.__file__)).parents[1]
ENVIRONMENT = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{SOURCES}:{SOURCES.parent}"}
SCRIPT = """
import os, signal, sys, time
import torch, torch.distributed as dist

dist.init_process_group("gloo")
total = torch.ones(1) * (dist.get_rank() + 1)
dist.all_reduce(total)
print(f"torch {torch.__version__}: {dist.get_world_size()} ranks sum to {int(total.item())}", flush=True)
if sys.argv[1] == "save":
    def save(*_):
        time.sleep(2)
        log = open(os.environ["TRAINMASTER_DIR"] + "/logs/launcher.log").read()
        print("hurried" if "death signal" in log else "saved in peace", flush=True)
        sys.exit(0)
    signal.signal(signal.SIGTERM, save)
    print("training", flush=True)
    while True:
        time.sleep(0.1)
dist.destroy_process_group()
"""


@pytest.fixture(params=PYTHONS, ids=range(len(PYTHONS)))
def python(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def started(tmp_path: Path, python: str, *arguments: str) -> tuple[ProcessLauncher, WorkFolder]:
    folder = WorkFolders(tmp_path / "data").of(f"att-test-{uuid.uuid4().hex}")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    launch = replace(LAUNCH, slots=(0, 1), master_port=port, command=("python", str(script), *arguments))
    facts = NodeFacts(python, ENVIRONMENT, {}, "lo")
    launcher = ProcessLauncher()
    launcher.start(prepare(folder, launch, facts, lambda *_: None, Event()))
    return launcher, folder


def test_two_ranks_meet_and_leave_nothing_in_the_nodes_tmp(tmp_path: Path, python: str) -> None:
    launcher, folder = started(tmp_path, python, "once")
    ended = until_ended(launcher, folder, 120)
    assert verdict_of(folder, ended, 2, False).exit_code == 0, folder.launcher_log.read_text()
    for rank in (0, 1):
        assert "2 ranks sum to 3" in folder.rank_log(rank).read_text()
    assert list(folder.tmp.glob("torchelastic_*"))
    folder.delete()
    assert not folder.tmp.exists()


def test_torchrun_hears_of_a_stop_only_when_its_ranks_have_saved(tmp_path: Path, python: str) -> None:
    """It would kill them after 30 seconds otherwise, in PyTorch before 2.13."""
    launcher, folder = started(tmp_path, python, "save")
    until_logged(folder, "training", 120)
    launcher.stop(folder, 100)
    ended = until_ended(launcher, folder, 120)
    assert not ended.killed_after_grace
    verdict = verdict_of(folder, ended, 2, False)
    assert (verdict.exit_code, verdict.reason) == (0, "It was asked to stop, and did.")
    assert all("saved in peace" in folder.rank_log(rank).read_text() for rank in (0, 1))
    assert processes.marked(folder.attempt_id) == []


def test_a_torchrun_without_ranks_that_hears_no_signal_is_killed(tmp_path: Path) -> None:
    package = tmp_path / "torch" / "distributed"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").touch()
    (package / "run.py").write_text(
        "import signal\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})\n"
        "print('waits', flush=True)\n"
        "while True:\n"
        "    signal.pause()\n"
    )
    environment = {**ENVIRONMENT, "PYTHONPATH": f"{tmp_path}:{ENVIRONMENT['PYTHONPATH']}"}
    command = [sys.executable, "-m", "trainmaster.gang"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as gang:
        assert gang.stdout is not None
        assert gang.stdout.readline() == b"waits\n"
        gang.terminate()
        assert gang.wait(60) == 137
