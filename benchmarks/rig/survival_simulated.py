"""1,024 GPUs for two weeks with a failure each 7.9 h, moment by moment: the part of the time that is productive."""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterator
from typing import Any

from platform_core.checkpointing.interval import daly, waste
from platform_core.recovery.endurance import Conditions, Interval, advised, endure, fixed
from platform_core.units import DAY_MS, HOUR_MS, MINUTE_MS

WALL_MS = 14 * DAY_MS
MTBF_MS = round(7.9 * HOUR_MS)
EXPECTED_MS = 24 * HOUR_MS  # what is believed before the first failure: wrong, so that it has to learn
# A sharded save of some minutes to the store that blocks for a second, and one that blocks until it is written.
BESIDE = Conditions(blocking_ms=1_000, write_ms=3 * MINUTE_MS, recovery_ms=4 * MINUTE_MS)
BLOCKING = Conditions(blocking_ms=3 * MINUTE_MS, write_ms=3 * MINUTE_MS, recovery_ms=4 * MINUTE_MS)
RUNS = 40


def lines(seed: int) -> Iterator[dict[str, Any]]:
    histories = [_failures(random.Random(f"{seed}-{run}")) for run in range(RUNS)]
    for saves, conditions in (("asynchronous", BESIDE), ("blocking", BLOCKING)):
        intervals: dict[str, Interval] = {
            f"fixed {minutes} min": fixed(minutes * MINUTE_MS) for minutes in (15, 60, 180)
        }
        intervals["ours"] = advised(conditions, EXPECTED_MS)
        for name, interval in intervals.items():
            runs = [endure(history, WALL_MS, conditions, interval) for history in histories]
            yield {
                "measure": "simulated", "gpus": 1024, "days": 14, "saves": saves, "interval": name,
                "ettr": round(statistics.mean(run.ettr for run in runs), 4),
                "lost_h": round(statistics.mean(run.lost_ms for run in runs) / HOUR_MS, 1),
                "saving_h": round(statistics.mean(run.saving_ms for run in runs) / HOUR_MS, 1),
                "failures": round(statistics.mean(run.failures for run in runs), 1), "runs": RUNS,
            }  # fmt: skip
        cost = conditions.blocking_ms
        optimum = 1 - waste(daly(cost, MTBF_MS), cost, MTBF_MS, conditions.recovery_ms)
        yield {"measure": "simulated_optimum", "saves": saves, "ettr": round(optimum, 4)}


def _failures(chance: random.Random) -> list[int]:
    moments, now = [], 0.0
    while (now := now + chance.expovariate(1 / MTBF_MS)) < WALL_MS:
        moments.append(round(now))
    return moments
