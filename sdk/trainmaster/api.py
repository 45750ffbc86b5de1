"""The functions of `import trainmaster`. They share one Run a process, made by the first of them that is called."""

from __future__ import annotations

import atexit
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from platform_core.experiments.fields import MAX_RUN_NAME
from trainmaster import training_reference
from trainmaster.checkpoints import collective, loading
from trainmaster.checkpoints.saving import WhenBusy
from trainmaster.efficiency.meter import Part
from trainmaster.environment import (
    JobEnvironment,
    Scalar,
    client_environment,
    job_environment,
    serving_environment,
)
from trainmaster.plain_values import short
from trainmaster.run import Run
from trainmaster.setting import setting_of
from trainmaster.tracking.live import ExitWatch, Tracking

if TYPE_CHECKING:
    from platform_core.registry.export_report import Report
    from platform_core.registry.exports import Target
    from trainmaster.query import RunRecord

_lock = threading.Lock()
_current: Run | None = None
_exit: ExitWatch | None = None


def init(
    total_steps: int | None = None,
    params: Mapping[str, Any] | None = None,
    seed: int | None = None,
    *,
    resume: str | bool = "",
    name: str = "",
    project: str = "",
    experiment: str = "",
    team: str = "",
    tags: Mapping[str, object] | None = None,
    group: str = "",
    parent: str = "",
    tokens_per_step: float | None = None,
    flops_per_step: float | None = None,
) -> Run:
    """Describe the run. Call it once, on every rank, before the first step.

    `total_steps` gives the pages their estimate of what remains, `params` are kept beside the job's
    hyperparameters, `seed` (or the job's) seeds Python, numpy and torch, the same on every rank.

    Outside the platform the run is kept in ./trainmaster-runs/, and sent to the platform of TRAINMASTER_URL and
    TRAINMASTER_TOKEN, or of `trainmaster login`, while it runs. `experiment` (or `project`), `team`, `name`, `group`
    and `parent`, the id of another run, say where it belongs there. `resume=True` continues the newest run of this
    script, and a path resumes from a checkpoint or run. Under the platform the platform decides all of these.

    `tokens_per_step` and `flops_per_step` of all ranks together give tokens a second and the MFU; without the FLOPs
    of the model those of one step are counted.

    In a notebook a second call ends the run before and begins another.
    """
    if _in_notebook() and _current is not None and _current.begun:
        _current.finish()
    name = short(name, MAX_RUN_NAME)
    run = _run("auto" if resume is True else resume or "", name, begin=True)
    run.begin(
        total_steps, params, seed, tags,
        name=name, experiment=experiment or project, team=team, group=group, parent=parent,
    )  # fmt: skip
    run.measures.meter.expect(tokens_per_step, flops_per_step)
    return run


def log(step: int, values: Any = None, **more: Any) -> None:
    """Metrics of one step: numbers, or tensors and arrays of one element. Never blocks, never raises for a value.

    Images, tables, histograms, texts and sounds too: `log(step, sample=trainmaster.Image(array))`, or a list of them.
    Only rank 0 reports. A name that is not a Python name stands in a dict: `log(step, {"eval/loss": 1.5})`.
    """
    _run().log(step, values, **more)


def save_checkpoint(
    state: Mapping[str, Any],
    step: int,
    *,
    blocking: bool = False,
    when_busy: WhenBusy | None = None,
    **metrics: Any,
) -> Path | None:
    """Save a dict of state_dict()s, tensors, sharded ones too, and plain values. All ranks call it, at the same step.

    Each rank copies its part to host memory and returns; a thread writes it with SHA-256 and gives the checkpoint its
    name when all parts are safe on disk. Rank 0 gets the folder that it will have. While the last save is being
    written the next one waits for it, or with `when_busy="skip"` is left out and returns None.
    The random states of all ranks go with it. `blocking=True` returns when the bytes are safe.

    CheckpointNotSaved is raised on every rank: here, or at the next call or finish() for a failure in the thread.
    """
    return _run().save_checkpoint(state, step, metrics, blocking=blocking, when_busy=when_busy)


def load_checkpoint(into: Mapping[str, Any] | None = None) -> tuple[dict[str, Any], int] | None:
    """The state, on the CPU, and the step to go on from; None for a fresh run. All ranks call it.

    With `into`, a state like the one that was saved, its tensors are filled in place, whatever number of ranks or
    layout the checkpoint has; each rank reads only its shards. What is returned then has these tensors.

    Call it last before the loop: it restores the random states too. A corrupt checkpoint raises CheckpointCorrupt;
    alone on a laptop it is set aside and the next older one is used.
    """
    return _run().load_checkpoint(into)


def read_checkpoint(folder: Path) -> dict[str, Any]:
    """The state in the folder of one checkpoint, on the CPU, without a run: for what serves or exports a model.

    Every byte is compared with its digest; a corrupt one raises CheckpointCorrupt.
    """
    loaded = loading.load(loading.Source([Path(folder)], warnings.warn, go_back=False))
    assert loaded is not None, "there is one candidate"
    return loaded.state


def checkpoint_due(step: int, every: int = 100) -> bool:
    """Whether to save now: by the job's checkpoint policy, or on an order of the platform.

    Where the policy names no interval, every `every` steps until the platform has measured some saves and sets one.

    All ranks call it at the same step and get the same answer.
    """
    return _run().checkpoint_due(step, every)


def check_corruption(step: int, compute: Callable[[Any], Any], batch: Any, *, every: int = 0) -> None:
    """Compare what the ranks compute: every so many steps one rank's `batch` goes to all, and `compute(batch)` must
    give the same everywhere.

    By `corruption_check` of the job, else every `every` steps; 0 is never. All ranks call it at each step, with the
    same weights. `compute` gets the batch on the CPU, changes nothing, and returns tensors or numbers, such as the
    loss and its gradients. A loss or gradient norm that is out of bounds when it is logged asks for a check at once.

    CorruptionFound is raised on all ranks. The platform takes the node out of service, and the job goes on from the
    last checkpoint before the last agreement.
    """
    _run().check_corruption(step, compute, batch, every)


def should_stop() -> bool:
    """Whether the run should end: after SIGTERM, or when the platform stops it. Save and leave the loop then.

    All ranks call it at the same step and get the same answer: if one rank left alone, the
    others would wait for it for ever.
    """
    return _run().should_stop()


def stop_deadline() -> float | None:
    """The seconds that are left for the last checkpoint once the platform stops the run, else None.

    It is the time of this rank's node; the answers of two ranks differ by the little time between the two calls.
    """
    return _run().stop_deadline()


def measuring(part: Part) -> AbstractContextManager[None]:
    """Count the time of a `with` block as "data", "evaluation" or "checkpoint" of the training loop.

    Loaders of torch, `model.eval()` to `model.train()` and `save_checkpoint` are measured without it.
    """
    return _run().measures.meter.measuring(part)


def log_artifact(path: str | Path) -> Path | None:
    """Keep a copy of a file or folder with the run."""
    return _run().log_artifact(path)


def set_tags(tags: Mapping[str, object]) -> None:
    """Set tags of the run, name and value."""
    _run().set_tags(tags)


def use_dataset(name: str) -> None:
    """Note in the lineage of a run outside the platform what it was trained on."""
    _run().use_dataset(name)


def finish(state: str = "succeeded") -> None:
    """End a run outside the platform and send what waits: succeeded, failed or cancelled. Else done at exit."""
    if _current is not None:
        _current.finish(state)


def runs(
    filter: str = "",
    order_by: str | Sequence[str] = (),
    *,
    experiment: str = "",
    team: str = "",
    limit: int = 100,
) -> list[RunRecord]:
    """The runs on the platform that a filter such as `metrics.loss < 0.5 and params.lr = "0.001"` finds."""
    # httpx takes a tenth of a second to import, which a training script does not need.
    from trainmaster import query

    return query.runs(filter, order_by, experiment=experiment, team=team, limit=limit)


def hyperparameters() -> dict[str, Scalar]:
    """The hyperparameters of the job; on a laptop those of TRAINMASTER_HYPERPARAMETERS, as JSON."""
    return dict(job_environment().hyperparameters)


def serving_constraints() -> Target | None:
    """What the serving target of the job asks of its model: `max_latency_ms`, `max_memory_bytes`, `max_difference`,
    `max_opset`, `dtype` and `formats`; 0, "" and an empty set ask nothing. None where the job names no target.
    """
    return serving_environment()


def export_model(
    module: Any,
    samples: Any,
    folder: str | Path,
    *,
    formats: Sequence[str] = (),
    dtype: str = "",
    repeats: int = 100,
) -> Report:
    """Write a torch module for serving into `folder`, in the formats and the dtype of the job's serving target.

    Each file is loaded by a process of its own, compared with the module on the samples, and measured; `export.json`
    beside them has the results. On several ranks call it on one. docs/how-to/export-a-model.md describes it.
    """
    from trainmaster import model_export

    target = serving_constraints()
    return model_export.export_model(
        module, samples, folder, target=target, formats=formats, dtype=dtype, repeats=repeats
    )


def save_training_reference(
    folder: str | Path, inputs: Sequence[Any], outputs: Sequence[Any] | None = None, *, seed: int = 0
) -> Path:
    """Write a sample of the training data into the folder of a model, as `reference.jsonl`, and return its path.

    `inputs` are rows as callers will send them, `outputs` what the model answers. An endpoint that serves such a
    version compares what it is asked with the sample: docs/how-to/serve-a-model.md. On several ranks call it on one.
    """
    return training_reference.save(folder, inputs, outputs, seed)


def data_dir(default: str | Path = "data") -> Path:
    """The folder with the job's dataset snapshot, verified; on a laptop TRAINMASTER_DATA, else `default`."""
    return job_environment().data or Path(default)


def _run(resume: str = "", name: str = "", *, begin: bool = False) -> Run:
    """The run of this process; `begin`: another one after it has ended."""
    global _current, _exit
    with _lock:
        if _current is not None and begin and _current.finished:
            _current = None
        if _current is not None and (resume or name):
            raise RuntimeError("trainmaster.init() with resume or name must be the first call of the run.")
        if _current is None:
            environment = _environment()
            script = name or Path(sys.argv[0] or "run").stem
            setting = setting_of(environment, script, resume)
            tracking = None
            if setting.alone and setting.home is not None:
                tracking = Tracking(setting.home, client_environment())
            _current = Run(environment, setting, _now_ms, tracking)
            if tracking is not None and _exit is None:
                _exit = ExitWatch()
                atexit.register(_finish_at_exit, _exit)
        return _current


def _finish_at_exit(exit: ExitWatch) -> None:
    if _current is not None:
        _current.finish(exit.state, exit.error)


def _environment() -> JobEnvironment:
    """With the rank of a process group that was begun without RANK; a data loader's worker is not the run's process."""
    known = job_environment()
    if known.folder is not None:
        return known
    if known.world_size == 1 and collective.active():
        known = replace(known, rank=collective.rank(), world_size=collective.world_size())
    processes = sys.modules.get("multiprocessing.process")
    if processes is not None and processes.current_process().daemon:
        return replace(known, rank=known.rank + known.world_size)
    return known


def _in_notebook() -> bool:
    return "ipykernel" in sys.modules


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
