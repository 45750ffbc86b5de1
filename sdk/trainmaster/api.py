"""The functions of `import trainmaster`. They share one Run a process, made by the first of them that is called."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainmaster.environment import Scalar, job_environment
from trainmaster.run import Run, setting_of

_lock = threading.Lock()
_current: Run | None = None


def init(
    total_steps: int | None = None,
    params: Mapping[str, Any] | None = None,
    seed: int | None = None,
    *,
    resume: str | bool = "",
    name: str = "",
) -> None:
    """Describe the run. Call it once, on every rank, before the first step.

    `total_steps` gives the pages their estimate of what remains, `params` are kept beside the job's
    hyperparameters, `seed` (or the job's) seeds Python, numpy and torch, the same on every rank.

    On a laptop `resume=True` continues the newest run of this script and a path resumes from a checkpoint or run;
    `name` replaces the script's name in ./trainmaster-runs/. Under the platform the platform decides both.
    """
    run = _run("auto" if resume is True else resume or "", name)
    run.begin(total_steps, params, seed)


def log(step: int, **values: Any) -> None:
    """Metrics of one step: numbers, or tensors and arrays of one element. Never blocks, never raises for a value.

    Only rank 0 reports. Pass a name that is not a Python name as `log(step, **{"eval/loss": 1.5})`.
    """
    _run().log(step, values)


def save_checkpoint(state: Mapping[str, Any], step: int, **metrics: Any) -> Path | None:
    """Save a dict of state_dict()s, tensors and plain values. All ranks call it, at the same step.

    Rank 0 writes, atomically and with SHA-256 of each file, and gets the folder; all ranks wait until the bytes are
    safe. The random states of all ranks go with it. CheckpointNotSaved is raised on every rank.
    """
    return _run().save_checkpoint(state, step, metrics)


def load_checkpoint() -> tuple[dict[str, Any], int] | None:
    """The state, on the CPU, and the step to go on from; None for a fresh run. All ranks call it.

    Call it last before the loop: it restores the random states too. A corrupt checkpoint raises CheckpointCorrupt;
    alone on a laptop it is set aside and the next older one is used.
    """
    return _run().load_checkpoint()


def checkpoint_due(step: int, every: int = 100) -> bool:
    """Whether to save now: by the job's checkpoint policy, or every `every` steps. All ranks call it."""
    return _run().checkpoint_due(step, every)


def should_stop() -> bool:
    """Whether the run should end: after SIGTERM, or when the platform stops it. Save and leave the loop then.

    All ranks call it at the same step and get the same answer: if one rank left alone, the
    others would wait for it for ever.
    """
    return _run().should_stop()


def log_artifact(path: str | Path) -> Path | None:
    """Keep a copy of a file or folder with the run."""
    return _run().log_artifact(Path(path))


def hyperparameters() -> dict[str, Scalar]:
    """The hyperparameters of the job; on a laptop those of TRAINMASTER_HYPERPARAMETERS, as JSON."""
    return dict(job_environment().hyperparameters)


def data_dir(default: str | Path = "data") -> Path:
    """The folder with the job's dataset snapshot, verified; on a laptop TRAINMASTER_DATA, else `default`."""
    return job_environment().data or Path(default)


def _run(resume: str = "", name: str = "") -> Run:
    global _current
    with _lock:
        if _current is not None and (resume or name):
            raise RuntimeError("trainmaster.init() with resume or name must be the first call of the run.")
        if _current is None:
            environment = job_environment()
            script = name or Path(sys.argv[0] or "run").stem
            _current = Run(environment, setting_of(environment, script, resume), _now_ms)
        return _current


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
