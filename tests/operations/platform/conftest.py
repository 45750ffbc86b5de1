"""Platforms for what is asked of one that runs, each started once: with TLS to its nodes, for endpoints, and one whose
nodes may be killed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.rig import survival_site
from tests.e2e.site import until
from tests.support.collector import Collector
from trainmaster.client import Client
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


@pytest.fixture(scope="package")
def serving(passable: Path) -> Iterator[PlatformProcess]:
    platform = PlatformProcess.start(passable / "serving", "--agents", "2", "--slots", "2", "--port", "0")
    yield platform
    platform.stop()


@pytest.fixture(scope="package")
def token(serving: PlatformProcess) -> str:
    serving.manage("seed_demo", "--slots", "0")
    token = serving.manage("token", "bob", "vision", "--name", "serving").split()[-1]
    with Client(serving.url, token) as client:
        until("two ready nodes", lambda: sum(node.state == "ready" for node in client.nodes()) == 2)
    serving.manage("seed_demo", "--slots", "4")  # nobody is guaranteed slots that have not joined
    return token


@pytest.fixture(scope="package")
def rig() -> Iterator[survival_site.Site]:
    """Three nodes with two slots each."""
    with survival_site.site() as it:
        yield it
