"""What needs an NVIDIA GPU: `make test ARGS=tests/gpu` on a machine that has one. Elsewhere these tests are skipped."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.probes.gpus import Nvml
from platform_core.node.description import SlotDescription
from tests.e2e.site import until
from tests.support import surroundings
from trainmaster.answers import Node
from trainmaster.client import Client
from webapp.operations.platform_process import PlatformProcess


@pytest.fixture(scope="session")
def nvml() -> Nvml:
    library = Nvml.open()
    if library is None or not library.gpus().gpus:
        pytest.skip("no NVIDIA GPU: NVML finds none on this machine")
    return library


@pytest.fixture(scope="session")
def gpus(nvml: Nvml) -> tuple[SlotDescription, ...]:
    import torch

    if not torch.cuda.is_available():
        pytest.skip(
            f"torch {torch.__version__} is built without CUDA or too new for the driver; install another"
        )
    return nvml.gpus().gpus


@pytest.fixture(scope="package")
def platform(gpus: tuple[SlotDescription, ...]) -> Iterator[PlatformProcess]:
    """As `trainmaster up` starts it where there are GPUs: one node that offers them."""
    folder = Path(tempfile.mkdtemp(prefix="trainmaster-gpu-"))
    folder.chmod(0o711)  # as root, PostgreSQL runs under another account and must pass
    with surroundings.of_a_stranger():
        platform = PlatformProcess.start(folder)
        try:
            yield platform
        finally:
            platform.stop()
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="package")
def bob(platform: PlatformProcess, gpus: tuple[SlotDescription, ...]) -> Iterator[Client]:
    platform.manage("seed_demo", "--slots", "0")
    token = platform.manage("token", "bob", "vision", "--name", "gpu").strip()
    with Client(platform.url, token) as client:
        node = until("a ready node", lambda: ready(client))
        platform.manage("seed_demo", "--gpu-type", node.gpu_type, "--slots", str(len(gpus)))
        yield client


def ready(client: Client) -> Node | None:
    return next((node for node in client.nodes() if node.state == "ready"), None)
