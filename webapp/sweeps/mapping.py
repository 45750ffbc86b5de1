"""Between the rows of sweeps and the core's values of them."""

import math
from collections.abc import Iterable
from typing import Any

from platform_core.sweeps import spec as specification
from platform_core.sweeps.states import Sweep, SweepState, Trial, TrialState
from webapp.sweeps import models


def sweep_value(row: models.Sweep, trials: Iterable[models.Trial]) -> Sweep:
    return Sweep(
        id=row.id,
        spec=specification.load(row.spec),
        created_ms=row.created_ms,
        trials=tuple(trial_value(trial) for trial in trials),
        state=SweepState(row.state),
        version=row.version,
        reason=row.reason,
        exhausted=row.exhausted,
        failures=row.failures,
        gpu_ms=row.gpu_ms,
        micro_dollars=row.micro_dollars,
        ended_ms=row.ended_ms,
    )


def trial_value(row: models.Trial) -> Trial:
    return Trial(
        number=row.number,
        parameters=tuple(sorted(row.parameters.items())),
        state=TrialState(row.state),
        job=row.job_id or "",
        reports=tuple((step, math.nan if value is None else value) for step, value in row.reports),
        value=row.value,
        step=row.step,
        reason=row.reason,
        settled=row.settled,
        proposed_ms=row.proposed_ms,
        started_ms=row.started_ms,
        ended_ms=row.ended_ms,
    )


def sweep_columns(value: Sweep) -> dict[str, Any]:
    return {
        "spec": specification.as_mapping(value.spec),
        "state": value.state,
        "version": value.version,
        "reason": value.reason,
        "exhausted": value.exhausted,
        "failures": value.failures,
        "gpu_ms": value.gpu_ms,
        "micro_dollars": value.micro_dollars,
        "ended_ms": value.ended_ms,
    }


def trial_columns(value: Trial) -> dict[str, Any]:
    """JSON has no NaN and no infinity: a report of one is null, as bad as a value can be."""
    return {
        "parameters": dict(value.parameters),
        "state": value.state,
        "job_id": value.job or None,
        "reports": [[step, at if math.isfinite(at) else None] for step, at in value.reports],
        "value": value.value if value.value is not None and math.isfinite(value.value) else None,
        "step": value.step,
        "reason": value.reason,
        "settled": value.settled,
        "proposed_ms": value.proposed_ms,
        "started_ms": value.started_ms,
        "ended_ms": value.ended_ms,
    }
