"""Sweeps for the tests of the core."""

from typing import Any

from platform_core.sweeps import spec as specification
from platform_core.sweeps.definition import SweepSpec
from platform_core.sweeps.states import Sweep, SweepEvent
from platform_core.sweeps.transitions import advance, begin

FIELDS: dict[str, Any] = {
    "name": "lr",
    "team": "vision",
    "method": "random",
    "space": {"lr": {"type": "log_uniform", "low": 1e-4, "high": 1e-1}},
    "objective": {"metric": "loss"},
    "budget": {"trials": 4},
    "parallel": 2,
    "job": {"command": "python train.py", "gpu_type": "cpu"},
}


def spec(**changes: Any) -> SweepSpec:
    return specification.parse({**FIELDS, **changes})


def sweep(**changes: Any) -> Sweep:
    return begin("sweep-0000000000000001", spec(**changes), 0)


def after(value: Sweep, *events: SweepEvent) -> Sweep:
    for event in events:
        value = advance(value, event).sweep
    return value
