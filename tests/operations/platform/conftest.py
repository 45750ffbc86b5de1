"""One platform for what is asked of one that runs, started once: with nodes, and with TLS to them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from webapp.operations.platform_process import PlatformProcess


@pytest.fixture(scope="package")
def platform(passable: Path) -> Iterator[PlatformProcess]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRAINMASTER_LOG_FORMAT", "json")
        patch.setenv("TRAINMASTER_AGENT_LOG_FORMAT", "json")
        platform = PlatformProcess.start(passable / "first", "--agents", "2", "--slots", "2", "--tls")
    yield platform
    platform.stop()
