"""How long the script of a stopped job may save, once it is known what its saves take."""

from __future__ import annotations

import pytest

from platform_core.jobs import events as ev
from platform_core.jobs.effects import StopMembers
from platform_core.jobs.transitions import advance
from tests.core.jobs.situations import HOUR_MS, running


@pytest.mark.parametrize(
    ("save_ms", "grace_ms"), [(0, 60_000), (10_000, 60_000), (200_000, 300_000), (HOUR_MS, 15 * 60_000)]
)
def test_a_stop_that_may_wait_gives_a_job_at_least_what_its_saves_take(save_ms: int, grace_ms: int):
    job = running().tell(ev.CheckpointSaved, attempt=1, step=1, checkpoint="ckpt-1", save_ms=save_ms).job
    for event in (
        ev.PreemptRequested(at_ms=5_000),
        ev.TimeLimitReached(at_ms=1_000 * HOUR_MS),
        ev.CancelRequested(at_ms=5_000, may_save=True),
    ):
        assert advance(job, event).effects == (StopMembers(("node-a", "node-b"), grace_ms),)
    [stop] = advance(job, ev.CancelRequested(at_ms=5_000)).effects
    assert stop == StopMembers(("node-a", "node-b"), 30_000)


def test_a_save_that_nobody_measured_keeps_the_time_of_the_one_before():
    story = running().tell(ev.CheckpointSaved, attempt=1, step=1, checkpoint="ckpt-1", save_ms=200_000)
    assert story.tell(ev.CheckpointSaved, attempt=1, step=2, checkpoint="ckpt-2").job.save_ms == 200_000
