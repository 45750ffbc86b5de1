"""What checkpoints add to the job pages: the list on a job's page, and the choice to resume from in the form."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from platform_core.checkpointing.habit import Cost, Review, percent
from platform_core.checkpointing.live import FORMULA
from platform_core.checkpointing.retention import Reason
from platform_core.units import format_bytes, format_duration_ms, plural
from webapp.checkpoints import advice, queries, retention
from webapp.checkpoints.models import Checkpoint, SaveOrders
from webapp.checkpoints.queries import SetInterval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webapp.jobs.models import Job


def of_job(job: Job) -> dict[str, Any]:
    rows = cache(lambda: queries.of_job(job.id))
    kept = cache(lambda: [row for row in rows() if row.deleted_ms is None and not row.damaged])
    stays = cache(lambda: {row.id: reason for row, reason in retention.of_job(job, saved=rows())})
    told = cache(lambda: queries.orders(job.id))
    return {
        "interval": lambda: _interval(queries.interval(told())),
        "order": lambda: _order(told(), rows()),
        "saving": lambda: _saving(advice.of_job(job, rows())),
        "checkpoints": lambda: [
            _line(row, stays().get(row.id)) for row in rows() if row.deleted_ms is None or row.damaged
        ],
        "retention": lambda: _retention(job),
        "checkpoint_ms": lambda: newest.saved_ms if (newest := _newest(kept())) else None,
    }


@dataclass(frozen=True, slots=True)
class SaveOrder:
    """The last order to save now, and the checkpoint that answered it."""

    by: str
    at_ms: int
    step: int | None  # None: no checkpoint yet
    answered: bool


@dataclass(frozen=True, slots=True)
class IntervalPanel:
    """The interval that the platform sets: how it is computed, from what, and what it costs."""

    every: str
    sentence: str
    formula: str
    inputs: tuple[tuple[str, str], ...]
    losses: tuple[tuple[str, str], ...]  # expected parts of the time


def _order(row: SaveOrders | None, saved: Sequence[Checkpoint]) -> SaveOrder | None:
    if row is None or row.asked_ms is None:
        return None
    step = next((checkpoint.step for checkpoint in saved if checkpoint.id == row.answer), None)
    return SaveOrder(row.asked_by, row.asked_ms, step, bool(row.answer))


def _interval(by_platform: SetInterval | None) -> IntervalPanel | None:
    if by_platform is None:
        return None
    live, measured = by_platform.live, by_platform.measured
    return IntervalPanel(
        every=format_duration_ms(live.interval_ms),
        sentence=live.sentence,
        formula=FORMULA,
        inputs=(
            ("C, blocking time of a save", format_duration_ms(measured.blocking_ms)),
            ("Time until a save is in the store", format_duration_ms(measured.stored_ms)),
            ("M, time between failures of the job", format_duration_ms(live.mtbf_ms)),
            ("Nodes", str(measured.nodes)),
            ("Node failures of its GPU type", f"{measured.losses.lost} in {measured.losses.watched}"),
            ("Preemptions and notices of the job", str(measured.stops)),
            ("Restart time", format_duration_ms(measured.restart_ms)),
        ),
        losses=(
            ("Saving", percent(live.saving)),
            ("Lost work and restarts", percent(max(0.0, live.waste - live.saving))),
            ("Total", percent(live.waste)),
        ),
    )


def _saving(review: Review | None) -> dict[str, Any] | None:
    if review is None:
        return None
    intervals = (("Current", review.now, False), ("Recommended", review.advised, review.floor))
    return {
        "sentence": review.sentence,
        "lines": [_cost(label, cost, floor) for label, cost, floor in intervals if cost is not None],
        "basis": _basis(review),
    }


def _basis(review: Review) -> str:
    """What the recommendation is computed from."""
    median = "" if review.habit.save_ms is None else f" (median {format_duration_ms(review.habit.save_ms)})"
    losses = review.losses
    lost = f"{plural(losses.lost, 'node failure')} of its GPU type in {losses.watched}"
    return (
        f"{plural(review.habit.saves, 'save')}{median}, {plural(review.nodes, 'node')}, "
        f"a restart time of {format_duration_ms(review.restart_ms)}, and {lost}"
    )


def _cost(label: str, cost: Cost, floor: bool) -> dict[str, str]:
    every = format_duration_ms(cost.interval_ms)
    return {
        "label": label,
        "every": f"at least {every}" if floor else every,
        "saving": percent(cost.saving),
        "lost": "unknown" if cost.lost is None else percent(cost.lost),
        "total": "unknown" if cost.lost is None else percent(cost.total),
    }


def _newest(rows: Sequence[Checkpoint]) -> Checkpoint | None:
    return max(rows, key=lambda row: (row.attempt, row.step), default=None)


def _retention(job: Job) -> str:
    rule, size = retention.rule_of(job), retention.bytes_of(job)
    policy = rule.policy
    parts = [f"the last {rule.keep_last}"]
    if policy.best and policy.metric:
        parts.append(f"the best {policy.best} by the {policy.direction} {policy.metric}")
    if policy.every_hours:
        parts.append(f"one every {plural(policy.every_hours, 'hour')}")
    old = f" for {format_duration_ms(policy.max_age_ms)}" if policy.max_age_ms and len(parts) > 1 else ""
    taken = f"{format_bytes(size.job)} of this job, {format_bytes(size.team)} of its team"
    return f"Kept: {', '.join(parts)}{old}. In the store: {taken}."


def _line(row: Checkpoint, reason: Reason | None) -> dict[str, Any]:
    return {
        "id": row.id,
        "step": row.step,
        "at_ms": row.saved_ms,
        "bytes": row.manifest.total_bytes,
        "state": "damaged" if row.damaged else "recalled" if row.recalled else "good",
        "why": row.damaged or ("Nothing may be made from it; its lineage says why." if row.recalled else ""),
        "metrics": sorted(row.metrics.items()),
        "manifest": row.manifest_id,
        "pinned_by": row.pinned_by,
        "retention": "" if reason is None else _stays(reason, row.pinned_by),
        "deletable": row.deleted_ms is None
        and reason is not None
        and not {"pinned", "in use"} & set(reason.stays),
    }


def _stays(reason: Reason, pinned_by: str) -> str:
    why = [f"pinned by {pinned_by}" if one == "pinned" else one for one in reason.stays]
    return f"kept: {', '.join(why)}" if why else f"goes: {reason.goes}"


def choices(teams: list[str]) -> dict[str, Any]:
    """The newest hundred checkpoints of these teams."""
    rows = queries.newest(teams, 100)
    return {"checkpoints": [{"id": row.id, "label": f"{row.job.name}, step {row.step:,}"} for row in rows]}
