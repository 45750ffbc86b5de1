"""Efficiency and cost of each run, kept in its row so that tables sort and filters compare by them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import F, Q

from platform_core.efficiency.ranks import breakdown, ranks_of
from platform_core.experiments.names import RANKS
from platform_core.experiments.states import RunState
from webapp.base.rows import update_each
from webapp.experiments.models import Run
from webapp.metrics import queries as metrics
from webapp.metrics.values import Level
from webapp.quotas import queries as quotas

MOST_AT_ONCE = 2_000
SETTLES_MS = 120_000  # what a run reported last is in the database so long after its end


def measure(now_ms: int) -> int:
    """Measures the runs that go on or have just ended, those that wait longest first. Returns how many."""
    due = Run.objects.filter(Q(measured=False) | Q(state=RunState.RUNNING)).exclude(state=RunState.PENDING)
    columns = ("id", "job_id", "ended_ms", "job__busy_samples", "job__busy_sum")
    rows = list(
        due.order_by(F("measured_ms").asc(nulls_first=True), "id").values_list(*columns)[:MOST_AT_ONCE]
    )
    ids = [run_id for run_id, *_ in rows]
    levels = metrics.levels(ids, (RANKS,))
    costs = quotas.costs_of_jobs([job for _, job, *_ in rows if job], now_ms)
    update_each(
        Run,
        {
            run_id: {
                **_of_ranks(levels[run_id]),
                "utilisation": total / samples if samples else None,
                "gpu_ms": costs[job].gpu_ms if job in costs else None,
                "micro_dollars": costs[job].micro_dollars if job in costs else None,
                "measured_ms": now_ms,
                "measured": ended_ms is not None and now_ms - ended_ms > SETTLES_MS,
            }
            for run_id, job, ended_ms, samples, total in rows
        },
    )
    return len(rows)


def _of_ranks(levels: Mapping[str, Level]) -> dict[str, Any]:
    """Means over the run, rates of all ranks together, and the most memory that any rank had at any time."""
    ranks = ranks_of({key: level.mean for key, level in levels.items()})
    parts = breakdown(ranks)
    shares = [rank.mfu for rank in ranks if rank.mfu is not None]
    tokens = [rank.tokens_per_second for rank in ranks if rank.tokens_per_second is not None]
    return {
        "mfu": sum(shares) / len(shares) if shares else None,
        "tokens_per_second": sum(tokens) if tokens else None,
        "step_seconds": max((rank.step_seconds for rank in ranks), default=None),
        "data_wait": parts.data if parts is not None else None,
        "memory_bytes": max(
            (level.max for key, level in levels.items() if key.endswith("/memory_bytes")), default=None
        ),
    }
