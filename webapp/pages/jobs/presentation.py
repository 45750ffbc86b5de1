"""A job in words and numbers, as its page and the list show it: the answer first."""

from dataclasses import dataclass
from math import ceil
from typing import Any

import yaml
from django.conf import settings

from platform_core.jobs.ends import ENDS, EndReason
from platform_core.jobs.spec import given
from platform_core.jobs.states import ACTIVE, TERMINAL, WAITING
from platform_core.quotas.cost import cost_micro_dollars
from platform_core.scheduling.preemption.elastic import grows_from_ms
from platform_core.scheduling.wording import amount
from platform_core.units import MINUTE_MS, format_duration_ms, format_micro_dollars, plural
from webapp.jobs import history
from webapp.jobs.models import Attempt, Job
from webapp.jobs.pace import remaining_ms
from webapp.quotas import queries as quotas


def elapsed_ms(job: Job, now_ms: int) -> int | None:
    if job.started_ms is None:
        return None
    return (job.finished_ms or now_ms) - job.started_ms


def percent(job: Job) -> int | None:
    """Of the steps that it need not take again: a job that waits goes on from its checkpoint."""
    if not job.total_steps or job.step is None:
        return None
    step = job.latest_step if job.state in WAITING else job.step
    return min(100, 100 * step // job.total_steps)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a reader wants to know first: why it waits, how far it is, or how it ended."""

    tone: str
    headline: str
    detail: str = ""


def answer(job: Job, now_ms: int) -> Answer:
    if job.state in WAITING:
        return _waiting(job, now_ms)
    if job.state in TERMINAL:
        return _ended(job)
    if job.stop != "none":
        grace = format_duration_ms(job.stop_grace_ms)
        return Answer("wait", "Stopping", f"Its processes have {grace} to save a checkpoint and exit.")
    if job.state == "scheduled":
        return Answer("run", "Scheduled", "Its nodes have been told to start it.")
    if job.state == "initializing":
        return Answer("run", "Starting", "The nodes fetch code and data and start the processes.")
    return _running(job)


def _waiting(job: Job, now_ms: int) -> Answer:
    position = f"Position {job.queue_position} in the queue. " if job.queue_position else ""
    why = _sentence(job.wait_sentence or "The scheduler decides within seconds")
    preempted = job.state == "preempted"
    headline = "Pending"
    if preempted:
        headline = f"Preempted, waiting to {'resume' if job.latest_checkpoint else 'start again'}"
    cause = ""
    if job.reason:
        cause = f" {_sentence(f'Stopped because {job.reason}' if preempted else job.reason)}"
    return Answer("wait", headline, f"{position}{why}{cause}{_lost_work(job, now_ms)}")


def _lost_work(job: Job, now_ms: int) -> str:
    """From where the next attempt begins, and how many steps are lost; "" before the first step."""
    if not job.step:
        return ""
    spans = history.of(job, now_ms).spans
    slot_time = f" ({format_duration_ms(spans[-1].lost_gpu_ms)} of slot time)" if spans else ""
    lost = plural(job.step - job.latest_step, "step") + slot_time
    if not job.latest_checkpoint:
        return f" It has no checkpoint: {lost} lost, it begins again at step 1."
    return f" It resumes from the checkpoint of step {job.latest_step:,}; {lost} lost."


def _running(job: Job) -> Answer:
    at = f"Step {job.step:,}" if job.step is not None else "Running; the script has not reported a step yet"
    of = f" of {job.total_steps:,}" if job.step is not None and job.total_steps else ""
    left = remaining_ms(job)
    detail = f"About {format_duration_ms(left)} left at this pace." if left else ""
    if job.state == "checkpointing":
        detail = f"Writing a checkpoint. {detail}".strip()
    return Answer("run", f"{at}{of}", detail)


def _ended(job: Job) -> Answer:
    took = ""
    if job.started_ms and job.finished_ms:
        took = f" after {format_duration_ms(job.finished_ms - job.started_ms)}"
    if job.state == "succeeded":
        return Answer("ok", f"Succeeded{took}", _attempts(job))
    if job.state == "cancelled":
        return Answer("off", f"Cancelled{took}", "Its metrics, log and checkpoints are kept.")
    end = ENDS[EndReason(job.end)] if job.end else None
    headline = f"Failed{took}: {end.in_sentence}" if end else f"Failed{took}"
    remedy = (
        end.remedy if end else "The log has the last lines of each rank; clone and edit the job to try again."
    )
    return Answer("bad", headline, f"{_sentence(job.reason)} {remedy}")


def _sentence(clause: str) -> str:
    return f"{clause[:1].upper()}{clause[1:].rstrip('. ')}."


def _attempts(job: Job) -> str:
    """The headline tells of the last attempt alone."""
    if job.attempt < 2 or job.finished_ms is None:
        return ""
    total = format_duration_ms(job.finished_ms - job.submitted_ms)
    past = history.of(job, job.finished_ms)
    waited = f", {format_duration_ms(past.waited_ms)} of them pending" if past.spans else ""
    return f"That was attempt {job.attempt}; all attempts and waits together took {total}{waited}."


@dataclass(frozen=True, slots=True)
class Figure:
    """A number beside the headline: a value, or a moment that the page shows as "12 s ago" or counts up from."""

    label: str
    value: str = ""
    note: str = ""
    at_ms: int | None = None
    since_ms: int | None = None


def figures(job: Job, now_ms: int, checkpoint_ms: int | None) -> tuple[Figure, ...]:
    """Those that are known, of progress, loss, utilisation, time, checkpoint and cost."""
    if job.state in WAITING and job.attempt == 0:
        return ()
    running = job.started_ms is not None and job.finished_ms is None and job.state in ACTIVE
    limit = f"of {job.spec['max_runtime_hours']} h at most"
    cost = quotas.cost_of_job(job.id, now_ms)
    all_of_them = (
        _step(job),
        Figure("Loss", _figure(job.loss)),
        Figure("Learning rate", _figure(job.learning_rate)),
        Figure("Utilisation", _percent(job.utilisation), f"of its {_slots(job)}"),
        Figure("Running for", since_ms=job.started_ms, note=limit) if running else None,
        Figure("Last checkpoint", at_ms=checkpoint_ms, note=f"at step {job.latest_step:,}")
        if checkpoint_ms
        else None,
        Figure("Cost", format_micro_dollars(cost.micro_dollars if cost else 0)),
    )
    return tuple(
        figure for figure in all_of_them if figure and (figure.value or figure.at_ms or figure.since_ms)
    )


def _step(job: Job) -> Figure | None:
    """A running job has its step in the headline."""
    if job.step is None or job.state not in TERMINAL:
        return None
    return Figure("Step", f"{job.step:,}", f"of {job.total_steps:,}" if job.total_steps else "")


def _slots(job: Job) -> str:
    return "slots" if job.gpu_type == "cpu" else "GPUs"


def shrunk(job: Job, attempt: Attempt | None, at_ms: int) -> str:
    """That an elastic job runs with fewer GPUs than it asks for, and when it may grow; "" for others."""
    held = sum(len(member.slots) for member in attempt.members.all()) if attempt else 0
    if job.state not in ACTIVE or job.started_ms is None or held >= job.num_gpus:
        return ""
    runs = f"It runs with {amount(held, job.gpu_type)} and asks for {job.num_gpus}"
    if not settings.SCHEDULING_ELASTIC:
        return f"{runs}."
    from_ms = grows_from_ms(job.started_ms, history.losses_ms(job))
    minutes = ceil((from_ms - at_ms) / MINUTE_MS)
    sooner = f", in {minutes} min at the earliest" if minutes > 0 else ""
    return (
        f"{runs}. It grows{sooner}, where slots are idle, no other job waits for them, and the restart pays."
    )


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
            "end": ENDS[EndReason(member.end)].label if member.phase in ("exited", "lost") else "",
            "reason": member.reason,
        }
        for member in sorted(attempt.members.all(), key=lambda member: member.rank)
    ]


@dataclass(frozen=True, slots=True)
class LineageEntry:
    label: str
    value: str
    monospace: bool = False
    id: str = ""  # of what the value names


def lineage_entries(job: Job, lineage: dict[str, Any], names: dict[str, str]) -> tuple[LineageEntry, ...]:
    """What the run was made of; ids are shown as the names that people gave, where these are known."""
    # Rows of an older platform have what scripts and clients sent, unchecked.
    packages = lineage.get("reported_packages")
    packages = packages if isinstance(packages, dict) else {}
    entries = (
        _named("Code", lineage.get("code"), names) or LineageEntry("Code", "on the nodes"),
        LineageEntry("Repository", _text(lineage.get("git_remote")), True),
        LineageEntry("Commit", _text(lineage.get("git_commit")), True),
        LineageEntry("Branch", _text(lineage.get("git_branch")), True),
        LineageEntry("Uncommitted changes", _diff(lineage.get("git_diff"))),
        LineageEntry("Submitted from", _text(lineage.get("submitted_from")), True),
        _named("Dataset", lineage.get("dataset"), names),
        LineageEntry("Purpose", _text(lineage.get("purpose"))),
        LineageEntry("Strategy", job.spec["strategy"]),
        LineageEntry("Roles", _plain(job.spec.get("roles", {}))),
        LineageEntry("Seed", _text(lineage.get("reported_seed", lineage.get("seed"))), True),
        LineageEntry("Command", " ".join(job.spec["command"]), True),
        _named("Resumed from", lineage.get("resume_from"), names),
        LineageEntry("Hardware", _text(lineage.get("reported_hardware") or lineage.get("hardware"))),
        LineageEntry("Packages", ", ".join(sorted(f"{name} {packages[name]}" for name in packages)), True),
        LineageEntry("Image", job.spec["container_image"], True),
    )
    return tuple(entry for entry in entries if entry is not None and entry.value)


def _named(label: str, identifier: object, names: dict[str, str]) -> LineageEntry | None:
    if not identifier:
        return None
    known = names.get(str(identifier))
    return LineageEntry(
        label, known or str(identifier), monospace=known is None, id=str(identifier) if known else ""
    )


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _diff(diff: object) -> str:
    text = diff if isinstance(diff, str) else ""
    return f"{plural(len(text.splitlines()), 'line')}, under Spec and lineage" if text else ""


def spec_rows(job: Job) -> list[tuple[str, str]]:
    return [(name.replace("_", " "), _plain(value)) for name, value in given(job.spec).items()]


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={item}" for key, item in value.items())
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def spec_text(job: Job) -> str:
    """The job file that gives this job again."""
    return str(yaml.safe_dump(given(job.spec), sort_keys=False, allow_unicode=True, width=100))


def cost_per_hour(gpu_type: str, gpus: int) -> int:
    return cost_micro_dollars(3_600_000, gpus, quotas.price(gpu_type))


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.0f} %"
