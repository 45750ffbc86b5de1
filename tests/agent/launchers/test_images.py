"""The image of a container is fetched before its start, so that the time it takes is seen by itself."""

from dataclasses import replace
from pathlib import Path

import pytest

from agent.launchers.container import ContainerLauncher
from agent.launchers.contract import LauncherError
from agent.launchers.engine import Engine
from agent.work_folder import WorkFolder
from tests.agent.launchers.conftest import order


def test_an_image_is_pulled_once(engine: Engine, folder: WorkFolder, tmp_path: Path) -> None:
    launcher = ContainerLauncher(engine)
    given = order(launcher, folder, "true")
    launcher.fetch(given)
    launcher.fetch(given)
    assert (tmp_path / "pulled").read_text().split() == ["any:latest"]


def test_an_image_that_is_nowhere_is_refused_in_the_words_of_the_engine(
    engine: Engine, folder: WorkFolder
) -> None:
    launcher = ContainerLauncher(engine)
    with pytest.raises(LauncherError, match="pull access denied for missing"):
        launcher.fetch(replace(order(launcher, folder, "true"), image="missing:latest"))
