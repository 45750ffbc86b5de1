"""Both launchers, and orders for them."""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.config import engine_environment
from agent.launchers.container import ContainerLauncher
from agent.launchers.contract import CONTAINER_FOLDER, Ended, Launcher, LaunchOrder
from agent.launchers.engine import Engine
from agent.launchers.process import ProcessLauncher
from agent.work_folder import WorkFolder, WorkFolders

STANDIN = Path(__file__).with_name("standin_engine.py")


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    program = tmp_path / "engine"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {STANDIN} {tmp_path / "containers"} "$@"\n')
    program.chmod(0o755)
    return Engine(str(program), engine_environment())


@pytest.fixture(params=["process", "container"])
def new_launcher(request: pytest.FixtureRequest, engine: Engine) -> Callable[[], Launcher]:
    """Makes one as a new agent would: without memory of what an earlier one did."""
    if request.param == "process":
        return ProcessLauncher
    return lambda: ContainerLauncher(engine)


@pytest.fixture
def launcher(new_launcher: Callable[[], Launcher]) -> Launcher:
    return new_launcher()


@pytest.fixture
def folder(tmp_path: Path) -> WorkFolder:
    # Processes are found by their attempt's name: another worker's tests must not find these.
    made = WorkFolders(tmp_path / "data").of(f"att-test-{uuid.uuid4().hex}")
    made.create()
    return made


def order(launcher: Launcher, folder: WorkFolder, script: str, **environment: str) -> LaunchOrder:
    """A shell script whose output is the log of rank 0. `$TRAINMASTER_DIR` is the work folder."""
    container = launcher.name == "container"
    return LaunchOrder(
        folder=folder,
        argv=("sh", "-c", script),
        cwd=folder.work,
        output=folder.rank_log(0),
        environment={
            "TRAINMASTER_ATTEMPT": folder.attempt_id,
            "TRAINMASTER_DIR": str(CONTAINER_FOLDER if container else folder.path),
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            **environment,
        },
        secret_names=tuple(name for name in environment if "SECRET" in name),
        image="any:latest" if container else "",
    )


def until_ended(launcher: Launcher, folder: WorkFolder, seconds: float = 20) -> Ended:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        status = launcher.poll(folder)
        if isinstance(status, Ended):
            return status
        time.sleep(0.02)
    raise AssertionError(f"still alive after {seconds} s")


def until_logged(folder: WorkFolder, text: str, seconds: float = 20) -> str:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        log = folder.rank_log(0)
        if log.exists() and text in log.read_text():
            return log.read_text()
        time.sleep(0.02)
    raise AssertionError(f'"{text}" is not in the log after {seconds} s')
