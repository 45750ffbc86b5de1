"""Runs of the SDK inside this process, commands, and a platform that answers what a test wants."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.sdk.platform_stub import TOKEN, PlatformStub, running_stub
from tests.sdk.scripts import attempt_folder
from trainmaster.cli import main
from trainmaster.environment import JobEnvironment
from trainmaster.run import Run
from trainmaster.setting import setting_of

Trainmaster = Callable[..., Result]
ME = {"username": "alice", "teams": {"vision": "lead", "nlp": "member"}, "token_team": "vision"}


class Clock:
    def __init__(self) -> None:
        self.ms = 1_700_000_000_000

    def __call__(self) -> int:
        return self.ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def on_a_node(tmp_path: Path, clock: Clock) -> Callable[..., Run]:
    """A run as one rank of an attempt; its folder is tmp_path/attempt."""
    folder = attempt_folder(tmp_path / "attempt")

    def make(**told: Any) -> Run:
        surroundings = JobEnvironment(folder=folder, **told)
        return Run(surroundings, setting_of(surroundings, "train", ""), clock)

    return make


@pytest.fixture
def on_a_laptop(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    """A run with no platform; the current folder is tmp_path."""
    monkeypatch.chdir(tmp_path)

    def make(resume: str = "", **told: Any) -> Run:
        surroundings = JobEnvironment(**told)
        return Run(surroundings, setting_of(surroundings, "train", resume), clock)

    return make


@pytest.fixture
def platform() -> Iterator[PlatformStub]:
    with running_stub() as stub:
        yield stub


@pytest.fixture
def trainmaster(platform: PlatformStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trainmaster:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("TRAINMASTER_URL", platform.url)
    monkeypatch.setenv("TRAINMASTER_TOKEN", TOKEN)
    monkeypatch.chdir(tmp_path)

    def call(*words: str, typed: str = "", code: int = 0) -> Result:
        result = CliRunner().invoke(main, words, input=typed)
        assert result.exit_code == code, result.output
        return result

    return call
