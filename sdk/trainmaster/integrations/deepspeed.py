"""For DeepSpeed: the files of ZeRO, a set for each rank, as one checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trainmaster.integrations import files

FOLDER, TAG = Path("deepspeed-state"), "state"


def save(engine: Any, step: int, **metrics: Any) -> None:
    """What `engine.save_checkpoint` writes, as a checkpoint. All ranks call it."""
    engine.save_checkpoint(str(FOLDER), tag=TAG)
    files.save(FOLDER, step, **metrics)


def resume(engine: Any) -> int:
    """The step to go on from, 0 for a fresh run. All ranks call it, after `deepspeed.initialize`."""
    folder = Path("deepspeed-resumed")
    step = files.load(folder)
    if step is None:
        return 0
    engine.load_checkpoint(str(folder), tag=TAG)
    return step
