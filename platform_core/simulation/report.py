"""The numbers of a history, in seconds, as one flat mapping."""

from __future__ import annotations

from collections.abc import Sequence

from platform_core.scheduling.metrics.waits_by_size import percentile
from platform_core.simulation.ledger import Ledger, Outcome

_LARGEST_PART = 100  # the largest 1 % of jobs are a class of their own
Number = int | float | None


def report(ledger: Ledger) -> dict[str, object]:
    outcomes = sorted(ledger.outcomes, key=lambda outcome: outcome.job.id)
    completions = sorted(outcome.completion_ms for outcome in outcomes)
    queues = sorted(outcome.queued_ms for outcome in outcomes)
    window = ledger.busy_gpu_ms + ledger.free_gpu_ms
    return {
        "jobs": len(outcomes),
        "mean_jct_s": _mean_s(completions),
        "p50_jct_s": _quantile_s(completions, 50),
        "p95_jct_s": _quantile_s(completions, 95),
        "p99_jct_s": _quantile_s(completions, 99),
        "mean_queue_s": _mean_s(queues),
        "p99_queue_s": _quantile_s(queues, 99),
        "by_size": {name: _of_class(members) for name, members in _classes(outcomes).items()},
        "utilisation": round(ledger.busy_gpu_ms / window, 4) if window else None,
        "makespan_s": _seconds(max((each.ended_ms for each in outcomes), default=0) - ledger.first_ms),
        "preemptions": ledger.preemptions,
        "most_attempts": max((each.attempts for each in outcomes), default=0),
        "restarts": ledger.restarts,
        "failed": len(ledger.failed),
        "node_failures": ledger.node_failures,
        "spot_notices": ledger.spot_notices,
        "gpu_seconds_lost": _seconds(ledger.lost_gpu_ms),
        "fragmentation": round(ledger.broken_gpu_ms / ledger.free_gpu_ms, 4) if ledger.free_gpu_ms else 0.0,
    }


def _classes(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    largest = sorted(outcomes, key=lambda outcome: (-outcome.job.gpus, outcome.job.id))
    return {
        "1": [each for each in outcomes if each.job.gpus == 1],
        "2-8": [each for each in outcomes if 2 <= each.job.gpus <= 8],
        "9+": [each for each in outcomes if each.job.gpus > 8],
        "largest_1%": largest[: -(-len(largest) // _LARGEST_PART)],
    }


def _of_class(outcomes: Sequence[Outcome]) -> dict[str, Number]:
    return {
        "jobs": len(outcomes),
        "mean_jct_s": _mean_s([outcome.completion_ms for outcome in outcomes]),
        "mean_queue_s": _mean_s([outcome.queued_ms for outcome in outcomes]),
    }


def _mean_s(values_ms: Sequence[int]) -> Number:
    return round(sum(values_ms) / len(values_ms) / 1_000, 1) if values_ms else None


def _quantile_s(ascending_ms: list[int], percent: int) -> Number:
    return _seconds(percentile(ascending_ms, percent)) if ascending_ms else None


def _seconds(value_ms: int) -> float:
    return round(value_ms / 1_000, 1)
