"""Checkpoints that a framework writes as files of its own: they travel as the state of `save_checkpoint`.

So they are hashed, uploaded, kept and found again like any other, whatever the framework puts into them.
"""

from __future__ import annotations

import shutil
from pathlib import Path, PurePosixPath
from typing import Any

import trainmaster
from trainmaster.checkpoints import collective
from trainmaster.environment import job_environment

FILES = "files"


def save(folder: Path, step: int, **metrics: Any) -> None:
    """Keep the files in `folder` as the checkpoint of this step, and delete them. All ranks call it.

    The first rank of each node takes those of its node: nodes need no common disk.
    """
    collective.any_true(False)  # a barrier: every rank has written its own
    own = _read(folder) if job_environment().local_rank == 0 else {}
    trainmaster.save_checkpoint({FILES: own}, step, **metrics)
    if own:
        shutil.rmtree(folder, ignore_errors=True)


def load(folder: Path) -> int | None:
    """Write the files of the checkpoint to go on from into `folder`. Returns its step, None for a fresh run.

    All ranks call it.
    """
    resumed = trainmaster.load_checkpoint()
    if resumed is None:
        return None
    state, step = resumed
    if job_environment().local_rank == 0:
        for name, data in state[FILES].items():
            path = folder / _checked(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data.numpy().tobytes())
    collective.any_true(False)  # a barrier: no rank reads before they are there
    return step


def _read(folder: Path) -> dict[str, Any]:
    import torch

    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        path.relative_to(folder).as_posix(): torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8)
        if path.stat().st_size
        else torch.empty(0, dtype=torch.uint8)
        for path in files
    }


def _checked(name: str) -> str:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(f"the checkpoint names a file outside its folder: {name!r}")
    return name
