"""The spool of a training script: one JSON object a line, written by the SDK."""

from __future__ import annotations

import json
import logging
import math
from base64 import b64decode
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from platform_core.experiments import rich_values
from platform_core.jobs.events import CheckpointFailed, CheckpointStarted
from platform_core.json_values import storable
from platform_core.loading.dropped import Item
from platform_core.recovery import alarms
from webapp.checkpoints import services as checkpoints
from webapp.datasets import services as datasets
from webapp.experiments import services as experiments
from webapp.jobs import corruption, recoveries
from webapp.jobs import services as jobs
from webapp.metrics.values import Points
from webapp.nodes import services as clusters
from webapp.rpc.bounds import UNREADABLE, moment, whole

if TYPE_CHECKING:
    from webapp.jobs.models import Attempt

log = logging.getLogger(__name__)

# names that scripts give to the values that the head of a job's page shows
_LOSS = ("loss", "train_loss", "train/loss")
_RATE = ("lr", "learning_rate")


def ingest(attempt: Attempt, node_id: str, data: bytes, *, rank: int = 0, end: int | None = None) -> None:
    """Keeps the lines of one batch. A line that cannot be read is logged and skipped, since it will not improve.

    `end`: where in the spool of the rank the batch ends, by which its points are known when it comes again.
    """
    points: dict[str, Points] = {}
    progress: dict[str, Any] = {}
    for line in data.splitlines():
        try:
            event = json.loads(line)
            kind = event["kind"]
            if kind == "metrics":
                _add(points, event)
                progress |= {key: value for key, value in _progress(event).items() if value is not None}
                continue
            if kind == "system":  # sampled by the agent: no progress of the script
                _add(points, event)
                continue
            progress |= _report(attempt, node_id, storable(event))
        except UNREADABLE as error:
            log.warning("a line of %s is not understood (%s): %.200r", attempt.id, error, line)
    if points:
        source = f"{attempt.id}:{rank}"
        series = list(points.values())
        experiments.ingest_series(attempt.job_id, attempt.number, series, source=source, sequence=end)
        clusters.sent(node_id, max(batch.times_ms[-1] for batch in series if batch.times_ms))
    if progress:
        jobs.progress(attempt.job_id, attempt.number, progress)


def _report(attempt: Attempt, node_id: str, event: dict[str, Any]) -> dict[str, Any]:
    """Keeps what one line tells; a kind that is not known here is left out. Returns what it says of the progress."""
    job_id, number, actor = attempt.job_id, attempt.number, f"node:{node_id}"
    match event["kind"]:
        case "init":
            experiments.describe_run(job_id, event)
            if "at_ms" in event:
                recoveries.milestone(job_id, number, "script", _at(event))
            return {"total_steps": whole(int(event["step_total"])) if event.get("step_total") else None}
        case "value":
            experiments.ingest_value(job_id, number, _value(event))
        case "tags":
            experiments.add_reported_tags(job_id, event["tags"])
        case "milestone":
            recoveries.milestone(job_id, number, event["name"], _at(event))
        case "corruption_agreed":
            corruption.agreed(job_id, number, _step(event))
        case "corruption_found":
            checkpoints.go_back(job_id, number, _found(event), actor)
        case "set_aside":
            _set_aside(attempt, event)
        case "training_alarm":
            corruption.alarm(attempt, _alarm(event), _at(event))
        case "watches_stop":
            return {"watches_stop": True}
        case "checkpoint_started":
            started = CheckpointStarted(at_ms=_at(event), actor=actor, attempt=number, step=_step(event))
            jobs.observe(job_id, started)
        case "checkpoint_failed":
            why = str(event["why"])
            failed = CheckpointFailed(
                at_ms=_at(event), actor=actor, attempt=number, step=_step(event), cause=why
            )
            jobs.observe(job_id, failed)
    return {}


def _at(event: dict[str, Any]) -> int:
    return moment(int(event["at_ms"]))


def _step(event: dict[str, Any]) -> int:
    return whole(int(event["step"]))


def _found(event: dict[str, Any]) -> corruption.Found:
    guilty, suspects = ([int(rank) for rank in event[name]] for name in ("guilty", "suspects"))
    return corruption.Found(whole(int(event["step"])), guilty, suspects, moment(int(event["at_ms"])))


def _set_aside(attempt: Attempt, event: dict[str, Any]) -> None:
    """Of what lies elsewhere than in a dataset of ours, the log alone tells."""
    snapshot = attempt.job.spec.get("dataset", "")
    if snapshot:
        sample = event.get("sample")
        shard, loader = event.get("shard", ""), event["loader"]
        if not isinstance(shard, str) or not isinstance(loader, str):
            raise ValueError("a shard and a loader have names")
        item = Item(
            shard[:1000], loader[:100], whole(int(event["samples"])),
            None if sample is None else whole(int(sample)),
        )  # fmt: skip
        if not item.shard and item.sample is None:
            raise ValueError("neither a shard nor a sample")
        item = replace(item, sample=None) if item.shard else item
        datasets.set_aside(
            snapshot, attempt.job_id, item, str(event["reason"])[:500], moment(int(event["at_ms"]))
        )


def _alarm(event: dict[str, Any]) -> str:
    value = float(event["value"]) if event["value"] is not None else math.nan
    seen = alarms.Alarm(alarms.Kind(event["alarm"]), value, float(event["limit"]))
    return seen.sentence(str(event["name"]), whole(int(event["step"])))


def _add(points: dict[str, Points], event: dict[str, Any]) -> None:
    """All values of the line or none. Its series are found by the name as it stands there, nearly always as before."""
    step, at_ms = whole(int(event["step"])), moment(int(event["at_ms"]))
    numbers = [(name, float(value)) for name, value in event["values"].items()]
    for name, number in numbers:
        series = points.get(name) or points.setdefault(name, Points(storable(str(name))[:250], [], [], []))
        series.steps.append(step)
        series.values.append(number)
        series.times_ms.append(at_ms)


def _value(event: dict[str, Any]) -> rich_values.RichValue:
    """A small image or sound may stand in the line itself, as `data` in base64."""
    return rich_values.checked(
        key=event["key"], step=whole(int(event["step"])), index=int(event.get("index", 0)), kind=event["type"],
        at_ms=moment(int(event["at_ms"])), caption=event.get("caption", ""), document=event.get("document"),
        data=b64decode(event.get("data", ""), validate=True),
    )  # fmt: skip


def _progress(event: dict[str, Any]) -> dict[str, Any]:
    values = event["values"]
    return {
        "step": whole(int(event["step"])),
        "progress_ms": moment(int(event["at_ms"])),
        "loss": _first(values, _LOSS),
        "learning_rate": _first(values, _RATE),
    }


def _first(values: dict[str, Any], names: tuple[str, ...]) -> float | None:
    return next(
        (float(values[name]) for name in names if name in values and math.isfinite(float(values[name]))), None
    )
