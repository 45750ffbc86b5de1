"""A standby: the next attempt of a job begins in processes that have imported PyTorch already."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event

import psutil
import pytest

import trainmaster
from agent.attempts import stacks
from agent.attempts.preparation import NodeFacts, prepare
from agent.attempts.records import verdict_of
from agent.launchers import processes
from agent.launchers.contract import Alive, LaunchOrder
from agent.launchers.process import ProcessLauncher
from agent.launchers.ranks import leaders
from agent.launchers.standby import tmp_of
from agent.work_folder import WorkFolders
from tests.agent.conftest import free_port
from tests.agent.launchers.conftest import until_ended, until_logged
from tests.agent.launches import LAUNCH

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
SOURCES = Path(str(trainmaster.__file__)).parents[1]
FACTS = NodeFacts(
    sys.executable,
    {"PATH": os.environ["PATH"], "PYTHONPATH": f"{SOURCES}:{SOURCES.parent}"},
    {},
    "lo",
)
SCRIPT = """
import multiprocessing, os, sys, time
had_torch = "torch" in sys.modules
import numpy, torch, torch.distributed as dist

def square(number):
    return number * number

if __name__ == "__main__":
    began = float(os.environ["BEGAN"])
    print(f"torch was there: {had_torch}, after {time.time() - began:.2f} s")
    dist.init_process_group("gloo")
    total = torch.ones(1) * (dist.get_rank() + 1)
    dist.all_reduce(total)
    print(f"{int(total.item())} {os.getcwd()} {os.environ['TRAINMASTER_ATTEMPT']} {os.environ.get('API_KEY')}")
    print(f"number {numpy.random.rand()}", flush=True)
    if sys.argv[1] == "spawn":
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            print("pool", pool.map(square, [3]), flush=True)
    if sys.argv[1] == "fail":
        raise ValueError("bad batch")
    while sys.argv[1] == "wait":
        time.sleep(0.05)
    dist.destroy_process_group()
"""


class Job:
    """Attempts of one job of two ranks on this node."""

    def __init__(self, folder: Path) -> None:
        self._folders = WorkFolders(folder / "data")
        self._script = folder / "train.py"
        self._script.write_text(SCRIPT)
        self.id = f"job-{uuid.uuid4().hex}"

    def order(self, *arguments: str, **fields: object) -> LaunchOrder:
        folder = self._folders.of(f"att-test-{uuid.uuid4().hex}")
        launch = replace(
            LAUNCH, job_id=self.id, slots=(0, 1), master_port=free_port(), secrets=(("API_KEY", "sesame"),),
            command=("python", str(self._script), *arguments),
            environment=(("BEGAN", f"{time.time()}"), ("IS_STANDBY_TEST", "yes")), **fields,
        )  # fmt: skip
        return prepare(folder, launch, FACTS, lambda *_: None, Event())


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


@pytest.fixture
def launcher() -> Iterator[ProcessLauncher]:
    launcher = ProcessLauncher(standby_free_bytes=1)
    yield launcher
    for process in standbys():
        process.kill()


def standbys() -> list[psutil.Process]:
    """All processes of standbys that wait."""
    found = []
    for process in psutil.process_iter():
        try:
            environment = process.environ()
        except psutil.Error:
            continue
        mark = environment.get(processes.MARK, "")
        if (
            mark.startswith("trainmaster-standby-")
            and environment.get("IS_STANDBY_TEST")
            and process.status() != psutil.STATUS_ZOMBIE
        ):
            found.append(process)
    return found


def until_warm(seconds: float = 120) -> list[psutil.Process]:
    """Shim, gang, torchrun, the server that forks, and the tracker of its resources; all imports done."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        waiting = standbys()
        if len(waiting) >= 5 and all(process.status() == psutil.STATUS_SLEEPING for process in waiting):
            time.sleep(1)
            if all(process.status() == psutil.STATUS_SLEEPING for process in standbys()):
                return waiting
        time.sleep(0.2)
    raise AssertionError(f"{len(standbys())} processes stand by after {seconds} s")


def until_gone(seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while standbys():
        assert time.monotonic() < deadline, standbys()
        time.sleep(0.1)


def test_the_next_attempt_begins_in_the_standby(job: Job, launcher: ProcessLauncher) -> None:
    first = job.order("wait")
    launcher.start(first)
    until_logged(first.folder, "number", 120)
    launcher.stand_by(first)
    waiting = until_warm()
    assert all("sesame" not in str(process.environ()) for process in waiting)
    launcher.stop(first.folder, 0)
    until_ended(launcher, first.folder, 60)
    assert len(standbys()) == len(waiting)
    launcher.forget(first.folder)
    first.folder.delete()

    second = job.order("spawn")
    launcher.start(second)
    ended = until_ended(launcher, second.folder, 120)
    assert verdict_of(second.folder, ended, 2, False).exit_code == 0, second.folder.launcher_log.read_text()
    numbers = set()
    for rank in (0, 1):
        log = second.folder.rank_log(rank).read_text()
        assert f"3 {second.cwd} {second.folder.attempt_id} sesame" in log
        assert "torch was there: True" in log
        assert "pool [9]" in log
        numbers.add(next(line for line in log.splitlines() if line.startswith("number")))
    assert len(numbers) == 2
    assert "limits:" in second.folder.launcher_log.read_text()
    until_gone()
    name = json.loads(second.folder.launch_file.read_text())["name"]
    assert tmp_of(name).exists()
    launcher.forget(second.folder)
    assert not tmp_of(name).exists()


def test_what_began_in_a_standby_is_dumped_stopped_and_killed_like_any_other(
    job: Job, launcher: ProcessLauncher
) -> None:
    first, second = job.order("wait"), job.order("wait")
    launcher.stand_by(first)
    until_warm()
    launcher.start(second)
    until_logged(second.folder, "number", 120)
    status = launcher.poll(second.folder)
    assert isinstance(status, Alive)
    assert list(leaders(second.folder, status.pid)) == [0, 1]
    dumped = stacks.dump_twice(second.folder, status.pid, {}, between_seconds=0)
    assert all("train.py" in str(stack) for stack in dumped)
    later = ProcessLauncher()  # a new agent knows nothing of standbys
    assert isinstance(later.adopt(second.folder), Alive)
    assert later.secrets(second.folder, ("API_KEY",)) == {}
    os.kill(status.pid, signal.SIGKILL)
    assert until_ended(later, second.folder).vanished
    assert standbys() == []


def test_a_rank_that_fails_in_a_standby_is_named(job: Job, launcher: ProcessLauncher) -> None:
    first, second = job.order("wait"), job.order("fail")
    launcher.stand_by(first)
    launcher.start(second)  # it still imports
    ended = until_ended(launcher, second.folder, 120)
    verdict = verdict_of(second.folder, ended, 2, False)
    assert (verdict.exit_code, "ValueError: bad batch" in verdict.reason) == (1, True)


def test_a_standby_is_of_one_job_and_ends_with_it_or_with_its_agent(
    job: Job, launcher: ProcessLauncher, tmp_path: Path
) -> None:
    first = job.order("wait")
    launcher.stand_by(first)
    launcher.stand_by(first)  # there is one already
    until_warm()
    (tmp_path / "other").mkdir()
    other = Job(tmp_path / "other").order("once")
    launcher.start(other)
    assert json.loads(other.folder.launch_file.read_text())["name"] == other.folder.machine_id
    until_ended(launcher, other.folder, 120)
    launcher.stand_down(job.id, 0)
    until_gone()

    launcher.stand_by(first)
    launcher.stand_down(job.id, 1)
    until_gone()
    launcher.stand_by(first)
    launcher._standbys._waiting[job.id].control.close()  # as by the end of the agent
    until_gone()


def test_without_free_memory_nothing_stands_by(job: Job) -> None:
    launcher = ProcessLauncher(standby_free_bytes=1 << 60)
    launcher.stand_by(job.order("wait"))
    assert standbys() == []
