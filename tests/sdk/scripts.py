"""Training scripts run as real processes, alone, under torchrun, or as the agent would start them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

INHERITED = ("PATH", "HOME", "LANG", "PYTHONPATH")


def environment(**variables: object) -> dict[str, str]:
    """Nothing of the caller's that could change a run."""
    kept = {name: os.environ[name] for name in INHERITED if name in os.environ} | {
        "XDG_CONFIG_HOME": "/nowhere"
    }
    return kept | {"OMP_NUM_THREADS": "1"} | {name: str(value) for name, value in variables.items()}


def run(
    words: list[str], folder: Path, *, ranks: int = 0, fails: bool = False, **variables: object
) -> subprocess.CompletedProcess[str]:
    """`ranks` 0 is plain python, otherwise torchrun with so many."""
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"] if ranks else []
    done = subprocess.run(
        [sys.executable, *launcher, *words],
        cwd=folder,
        env=environment(**variables),
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    if not fails:
        assert done.returncode == 0, done.stdout + done.stderr
    return done


def events(file: Path, kind: str = "") -> list[dict[str, Any]]:
    found = [json.loads(line) for line in file.read_text().splitlines()]
    return [event for event in found if not kind or event["kind"] == kind]


def attempt_folder(path: Path) -> Path:
    """As the agent makes it."""
    for name in ("code", "data", "work", "checkpoints", "logs", "spool", "ranks"):
        (path / name).mkdir(parents=True)
    return path
