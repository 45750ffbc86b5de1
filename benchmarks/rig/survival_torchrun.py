"""The peer of `benchmarks.survival`: plain torchrun of four ranks on one machine, which restarts its gang by itself."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from benchmarks.rig.survival_site import SCRIPT


@contextmanager
def torchrun(folder: Path, every: int) -> Iterator[psutil.Process]:
    """Yields the launcher; its children are the ranks. Ended at the end."""
    environment = os.environ | {
        "SURVIVAL_EVERY": str(every),
        "SURVIVAL_PROGRESS": str(folder / "progress"),
        "SURVIVAL_END": str(folder / "end"),
        "SURVIVAL_CHECKPOINT": str(folder / "checkpoint.pt"),
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        # A shared store keeps the addresses of the ranks before the restart, and every restart fails (torch 2.13).
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=4", "--max-restarts=1000",
        str(SCRIPT),
    ]  # fmt: skip
    with (folder / "torchrun.log").open("ab") as log:
        launcher = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
    process = psutil.Process(launcher.pid)
    try:
        yield process
    finally:
        for child in [*process.children(recursive=True), process]:
            with suppress(psutil.Error):
                child.kill()
        launcher.wait()
