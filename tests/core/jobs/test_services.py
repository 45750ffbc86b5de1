"""Jobs that never end by themselves."""

from dataclasses import replace

import pytest

from platform_core.jobs import events as ev
from platform_core.jobs.ends import EndReason
from platform_core.jobs.job import Failure, Job
from platform_core.jobs.recovery import Restart, decide
from platform_core.jobs.spec import parse
from platform_core.jobs.states import JobState
from platform_core.jobs.transitions import advance, submit
from platform_core.units import HOUR_MS

SPEC = {"name": "replica", "team": "vision", "command": "python -m trainmaster.serving", "gpu_type": "cpu",
        "kind": "service", "strategy": "custom", "model": "mlp:3", "max_restarts": 0}  # fmt: skip


def service() -> Job:
    return submit("job-1", parse(SPEC), ev.Submitted(at_ms=0, actor="user:alice")).job


def failed(*ran_ms: int) -> Job:
    failures = tuple(
        Failure(
            node="n1", at_ms=0, attempt=number, end=EndReason.SCRIPT_ERROR, ran_ms=ran, exit_code=1, step=0
        )
        for number, ran in enumerate(ran_ms, 1)
    )
    return replace(service(), failures=failures)


@pytest.mark.parametrize(
    ("ran_ms", "pause_ms"),
    [((HOUR_MS,), 0), ((1_000,), 0), ((1_000, 1_000), 10_000), ((1_000,) * 3, 20_000), ((1_000,) * 40, 300_000),
     ((1_000, 1_000, HOUR_MS), 0)],
)  # fmt: skip
def test_a_service_always_starts_again_and_waits_longer_while_it_fails_soon(
    ran_ms: tuple[int, ...], pause_ms: int
) -> None:
    verdict = decide(failed(*ran_ms))
    assert isinstance(verdict, Restart)
    assert verdict.pause_ms == pause_ms


def test_a_service_has_no_time_limit() -> None:
    running = replace(service(), state=JobState.RUNNING, started_ms=0)
    after = advance(running, ev.TimeLimitReached(at_ms=10_000 * HOUR_MS, actor="system")).job
    assert after == running
