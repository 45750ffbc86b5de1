"""Makes the runs of the demonstration that have no job: seeds in groups, a run that fails, one that goes on."""

import math
import random
from collections.abc import Iterator
from typing import Any

from django.core.management.base import BaseCommand

from webapp.accounts import queries as accounts
from webapp.accounts.permissions import Actor
from webapp.base.identity import now_ms
from webapp.experiments import queries, services
from webapp.experiments.models import Experiment
from webapp.metrics.values import Points

EXPERIMENT = "learning rates"
DESCRIPTION = """Which **learning rate** and depth does the small classifier need?

Three seeds for each of four settings, logged from a workstation with `trainmaster.init()`.
"""
SETTINGS = (
    {"lr": 0.1, "depth": 2},
    {"lr": 0.03, "depth": 2},
    {"lr": 0.03, "depth": 4},
    {"lr": 0.003, "depth": 4},
)
SEEDS = (1, 2, 3)
STEPS = 300
STEP_MS = 800


class Command(BaseCommand):
    help = "Make the runs of the demonstration that have no job."

    def handle(self, *args: Any, **options: Any) -> None:
        bob = accounts.actor_of(accounts.user("bob"))
        experiment = services.ensure_experiment(bob, "vision", EXPERIMENT)
        if queries.runs(experiment.pk):
            return
        services.update_experiment(bob, experiment, description=DESCRIPTION, tags={"dataset": "digits"})
        for place, setting in enumerate(SETTINGS):
            for seed in SEEDS:
                self._make(bob, experiment, place, setting, seed)

    def _make(
        self, bob: Actor, experiment: Experiment, place: int, setting: dict[str, Any], seed: int
    ) -> None:
        """The first setting diverges; the last run goes on."""
        fails = place == 0 and seed == SEEDS[-1]
        goes_on = place == len(SETTINGS) - 1 and seed == SEEDS[-1]
        steps = STEPS // 3 if fails else STEPS // 2 if goes_on else STEPS
        ended = now_ms() - (len(SETTINGS) - place) * 3_600_000 + seed * 600_000
        start = now_ms() - steps * STEP_MS if goes_on else ended - steps * STEP_MS
        run = services.create_run(
            bob,
            experiment,
            name=f"lr-{setting['lr']:g}-depth-{setting['depth']}-seed-{seed}",
            parameters={
                **setting,
                "seed": seed,
                "optimizer": "sgd" if place == 0 else "adamw",
                "batch_size": 128,
            },
            tags={"stage": "candidate" if place == 2 else "search", "host": "workstation-3"},
            group=f"lr {setting['lr']:g}, depth {setting['depth']}",
            source="api",
            started_ms=start,
        )
        rng = random.Random(100 * place + seed)
        services.log_points(bob, run, list(_series(setting, steps, start, rng, fails)))
        if not goes_on:
            services.finish_run(bob, run, "failed" if fails else "succeeded", start + steps * STEP_MS)


def _series(
    setting: dict[str, Any], steps: int, start: int, rng: random.Random, fails: bool
) -> Iterator[Points]:
    """Losses that fall towards a floor that depends on the setting; NaN at the end of a run that diverges."""
    rate, depth = setting["lr"], setting["depth"]
    floor = 0.25 + 0.12 * abs(math.log10(rate / 0.03)) - 0.03 * depth
    losses = [floor + 2 * math.exp(-step * rate * 0.6) + rng.gauss(0, 0.03) for step in range(steps)]
    if fails:
        losses[-10:] = [loss * 3**place for place, loss in enumerate(losses[-10:-1])] + [math.nan]
    every = range(0, steps, 10)
    yield _points("train/loss", range(steps), losses, start)
    yield _points("val/loss", every, [losses[step] * 1.06 + 0.02 for step in every], start)
    yield _points("val/accuracy", every, [max(0.1, 1 - losses[step] * 0.45) for step in every], start)
    yield _points("perf/step_time", every, [STEP_MS / 1000 + rng.gauss(0, 0.02) for _ in every], start)


def _points(key: str, steps: range, values: list[float], start: int) -> Points:
    return Points(key, list(steps), values, [start + step * STEP_MS for step in steps])
