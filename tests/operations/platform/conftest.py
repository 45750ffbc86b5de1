"""One platform for what is asked of one that runs, started once: with nodes, and with TLS to them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.collector import Collector
from webapp.operations.platform_process import PlatformProcess


@pytest.fixture(scope="package")
def collector() -> Iterator[Collector]:
    with Collector().running() as collector:
        yield collector


@pytest.fixture(scope="package")
def platform(passable: Path, collector: Collector) -> Iterator[PlatformProcess]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRAINMASTER_LOG_FORMAT", "json")
        patch.setenv("TRAINMASTER_AGENT_LOG_FORMAT", "json")
        patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        platform = PlatformProcess.start(passable / "first", "--agents", "2", "--slots", "2", "--tls")
    yield platform
    platform.stop()
