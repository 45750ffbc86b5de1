"""A job in words and numbers, as its page and the list show it: the answer first."""

from typing import Any

import yaml

from platform_core.jobs import spec as specification
from platform_core.jobs.states import ACTIVE, TERMINAL, WAITING
from platform_core.quotas.cost import cost_micro_dollars
from platform_core.units import format_duration_ms, format_micro_dollars, plural
from webapp.jobs import history
from webapp.jobs.models import Attempt, Job
from webapp.quotas import queries as quotas


def elapsed_ms(job: Job, now_ms: int) -> int | None:
    if job.started_ms is None:
        return None
    return (job.finished_ms or now_ms) - job.started_ms


def remaining_ms(job: Job) -> int | None:
    """At the pace of the running attempt: steps still to do at the mean time of those done."""
    if job.step is None or job.total_steps is None or job.first_step is None:
        return None
    done = job.step - job.first_step
    if done <= 0 or job.first_step_ms is None or job.progress_ms is None:
        return None
    return max(0, job.total_steps - job.step) * (job.progress_ms - job.first_step_ms) // done


def percent(job: Job) -> int | None:
    """Of the steps that it need not take again: a job that waits goes on from its checkpoint."""
    if not job.total_steps or job.step is None:
        return None
    step = job.latest_step if job.state in WAITING else job.step
    return min(100, 100 * step // job.total_steps)


def answer(job: Job, now_ms: int) -> dict[str, str]:
    """The one thing a reader wants to know: why it waits, how it goes, how it ended."""
    if job.state in WAITING:
        place = f"Number {job.queue_position} in the queue. " if job.queue_position else ""
        why = _sentence(job.wait_sentence or "The scheduler looks at it within seconds")
        preempted = job.state == "preempted"
        told = (
            f" {_sentence(f'It was stopped: {job.reason}' if preempted else job.reason)}"
            if job.reason
            else ""
        )
        headline = "Waiting to start"
        if preempted:
            headline = f"Preempted, waits to {'resume' if job.latest_checkpoint else 'start again'}"
        return {"tone": "wait", "headline": headline, "detail": f"{place}{why}{told}{_goes_on(job, now_ms)}"}
    if job.state in TERMINAL:
        return _ended(job)
    if job.stop != "none":
        return {
            "tone": "wait",
            "headline": "Stopping",
            "detail": f"Its processes have {format_duration_ms(job.stop_grace_ms)} to save and leave.",
        }
    if job.state == "scheduled":
        return {"tone": "run", "headline": "It has its slots", "detail": "Its nodes have been told to begin."}
    if job.state == "initializing":
        return {
            "tone": "run",
            "headline": "Starting",
            "detail": "The nodes fetch code and data and start the processes.",
        }
    return _going(job)


def _goes_on(job: Job, now_ms: int) -> str:
    """From where the next attempt begins, and how many steps are lost; "" before the first step."""
    if not job.step:
        return ""
    spans = history.of(job, now_ms).spans
    slot_time = f" ({format_duration_ms(spans[-1].lost_gpu_ms)} of slot time)" if spans else ""
    lost = plural(job.step - job.latest_step, "step") + slot_time
    if not job.latest_checkpoint:
        return f" It has no checkpoint: {lost} lost, it begins again at step 1."
    return f" It resumes from the checkpoint of step {job.latest_step:,}; {lost} lost."


def _going(job: Job) -> dict[str, str]:
    at = f"Step {job.step:,}" if job.step is not None else "Running; the script has not reported a step yet"
    of = f" of {job.total_steps:,}" if job.step is not None and job.total_steps else ""
    left = remaining_ms(job)
    detail = f"About {format_duration_ms(left)} to go at this pace." if left else ""
    if job.state == "checkpointing":
        detail = f"A checkpoint is being written. {detail}".strip()
    return {"tone": "run", "headline": f"{at}{of}", "detail": detail}


def _ended(job: Job) -> dict[str, str]:
    took = ""
    if job.started_ms and job.finished_ms:
        took = f" after {format_duration_ms(job.finished_ms - job.started_ms)}"
    if job.state == "succeeded":
        return {"tone": "ok", "headline": f"Succeeded{took}", "detail": _attempts(job)}
    if job.state == "cancelled":
        return {
            "tone": "off",
            "headline": f"Cancelled{took}",
            "detail": "Its metrics, log and checkpoints stay.",
        }
    remedy = " The log has the last lines of each rank; clone and edit it to try again."
    return {"tone": "bad", "headline": f"Failed{took}", "detail": f"{_sentence(job.reason)}{remedy}"}


def _sentence(clause: str) -> str:
    return f"{clause[:1].upper()}{clause[1:].rstrip('. ')}."


def _attempts(job: Job) -> str:
    """The headline tells of the last attempt alone."""
    if job.attempt < 2 or job.finished_ms is None:
        return ""
    total = format_duration_ms(job.finished_ms - job.submitted_ms)
    told = history.of(job, job.finished_ms)
    waited = f", {format_duration_ms(told.waited_ms)} of it waiting" if told.spans else ""
    return f"That was attempt {job.attempt}; with the earlier ones and all waiting it took {total}{waited}."


def kpis(job: Job, now_ms: int, checkpoint_ms: int | None) -> list[dict[str, Any]]:
    """Step, loss, learning rate, utilisation, elapsed, remaining, last checkpoint, cost."""
    if job.state in WAITING and job.attempt == 0:
        return []
    left = remaining_ms(job) if job.state in ACTIVE else None
    cost = quotas.cost_of_job(job.id, now_ms)
    spent = cost.micro_dollars if cost else 0
    running = job.started_ms is not None and job.finished_ms is None and job.state in ACTIVE
    elapsed: dict[str, Any] = {"label": "Elapsed", "note": f"limit {job.spec['max_runtime_hours']} h"}
    elapsed |= {"since_ms": job.started_ms} if running else {"value": _duration(elapsed_ms(job, now_ms))}
    saved: dict[str, Any] = {
        "label": "Last checkpoint",
        "note": f"step {job.latest_step:,}" if job.latest_checkpoint else "none yet",
    }
    saved |= {"at_ms": checkpoint_ms} if checkpoint_ms else {"value": "–"}
    return [
        {
            "label": "Step",
            "value": _count(job.step),
            "note": f"of {_count(job.total_steps)}" if job.total_steps else "",
        },
        {"label": "Loss", "value": _figure(job.loss), "note": ""},
        {"label": "Learning rate", "value": _figure(job.learning_rate), "note": ""},
        {"label": "Utilisation", "value": _percent(job.utilisation), "note": "of its slots"},
        elapsed,
        {"label": "Remaining", "value": _duration(left), "note": "at this pace" if left else ""},
        saved,
        {"label": "Cost", "value": format_micro_dollars(spent), "note": f"{job.num_gpus} × {job.gpu_type}"},
    ]


def members(attempt: Attempt | None) -> list[dict[str, Any]]:
    if attempt is None:
        return []
    return [
        {
            "node_id": member.node_id,
            "node": member.node.hostname,
            "rank": member.rank,
            "slots": ", ".join(map(str, member.slots)),
            "phase": member.phase,
            "exit_code": member.exit_code,
            "reason": member.reason,
        }
        for member in sorted(attempt.members.all(), key=lambda member: member.rank)
    ]


def made_of(job: Job, lineage: dict[str, Any]) -> list[tuple[str, Any, bool]]:
    """Lineage as (label, value, monospace): code, commit, data, seed, packages, hardware."""
    # Rows of an older platform have what scripts and clients sent, unchecked.
    packages = lineage.get("reported_packages")
    packages = packages if isinstance(packages, dict) else {}
    rows = [
        ("Code", lineage.get("code") or "on the nodes", True),
        ("Commit", lineage.get("git_commit"), True),
        ("Branch", lineage.get("git_branch"), True),
        ("Uncommitted changes", _diff(lineage.get("git_diff")), False),
        ("Submitted from", lineage.get("submitted_from"), True),
        ("Data", lineage.get("dataset"), True),
        ("Purpose", lineage.get("purpose"), False),
        ("Strategy", job.spec["strategy"], False),
        ("Seed", lineage.get("reported_seed", lineage.get("seed")), True),
        ("Command", " ".join(job.spec["command"]), True),
        ("Resumed from", lineage.get("resume_from"), True),
        ("Hardware", lineage.get("reported_hardware") or lineage.get("hardware"), False),
        ("Packages", ", ".join(sorted(f"{name} {version}" for name, version in packages.items())), True),
        ("Image", job.spec["container_image"], True),
    ]
    return [(label, str(value), monospace) for label, value, monospace in rows if value not in (None, "")]


def _diff(diff: object) -> str | None:
    told = diff if isinstance(diff, str) else ""
    return f"{plural(len(told.splitlines()), 'line')}, under Spec and lineage" if told else None


def spec_rows(job: Job) -> list[tuple[str, str]]:
    return [(name.replace("_", " "), _plain(value)) for name, value in _given(job).items()]


def _given(job: Job) -> dict[str, Any]:
    """What was asked for, in the order of a job file; the database keeps the fields in its own."""
    names = [name for name in specification.as_mapping(specification.restore(job.spec)) if name in job.spec]
    return {name: job.spec[name] for name in names if job.spec[name] not in ("", [], {}, None)}


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={item}" for key, item in value.items())
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def spec_text(job: Job) -> str:
    """The job file that gives this job again."""
    return str(yaml.safe_dump(_given(job), sort_keys=False, allow_unicode=True, width=100))


def cost_per_hour(gpu_type: str, gpus: int) -> int:
    return cost_micro_dollars(3_600_000, gpus, quotas.price(gpu_type))


def _count(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.0f} %"


def _duration(ms: int | None) -> str:
    return "–" if ms is None else format_duration_ms(ms)
