"""A work folder, its uplink, and who acknowledges."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agent.work_folder import WorkFolders
from tests.agent.uplink.bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    folder = WorkFolders(tmp_path / "data").of("att-test-up")
    folder.create()
    with ThreadPoolExecutor(1) as executor:
        yield Bench(folder, tmp_path / "store", executor)
