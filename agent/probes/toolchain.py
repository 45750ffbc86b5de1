"""What the Python that runs the jobs of this node has: its version, that of torch, CUDA and NCCL."""

from __future__ import annotations

import json
import logging
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

log = logging.getLogger(__name__)

PROBE_SECONDS = 60
# Runs in the other Python. It reads torch's files and does not import torch, which takes seconds.
_PROBE = r"""
import importlib.metadata, importlib.util, json, pathlib, platform, runpy
answer = {"python": platform.python_version(), "torch": "", "cuda": "", "nccl": ""}
spec = importlib.util.find_spec("torch")
if spec is not None and spec.origin:
    root = pathlib.Path(spec.origin).parent
    version = runpy.run_path(str(root / "version.py"))
    answer["torch"], answer["cuda"] = str(version["__version__"]), str(version.get("cuda") or "")
for package in importlib.metadata.distributions():
    if str(package.metadata["Name"]).lower().replace("_", "-").startswith("nvidia-nccl-"):
        answer["nccl"] = package.version
print(json.dumps(answer))
"""


@dataclass(frozen=True, slots=True)
class Toolchain:
    """Empty strings for what is not there."""

    python: str = ""
    torch: str = ""
    cuda: str = ""  # that torch was built for
    nccl: str = ""  # where it is a package of its own

    @property
    def versions(self) -> dict[str, str]:
        return {
            name: version
            for name, version in (
                ("python", self.python),
                ("torch", self.torch),
                ("cuda", self.cuda),
                ("nccl", self.nccl),
            )
            if version
        }


def ask(python: str, environment: Mapping[str, str]) -> Toolchain:
    """Blocks for a moment. A Python that does not answer counts as one without torch."""
    try:
        done = subprocess.run(
            [python, "-c", _PROBE],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PROBE_SECONDS,
            check=False,
        )
        answer = json.loads(done.stdout.strip().splitlines()[-1])
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError, RecursionError) as error:
        log.warning("%s does not tell its versions: %s", python, error)
        return Toolchain()
    return Toolchain(
        python=str(answer["python"]),
        torch=str(answer["torch"]),
        cuda=str(answer["cuda"]),
        nccl=str(answer["nccl"]),
    )
