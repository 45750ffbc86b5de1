from __future__ import annotations

from platform_core.jobs.states import ACTIVE, DESCRIPTION, TERMINAL, WAITING, JobState


def test_every_state_is_of_one_kind_and_described():
    assert set(DESCRIPTION) == set(JobState) == WAITING | ACTIVE | TERMINAL
    assert len(WAITING) + len(ACTIVE) + len(TERMINAL) == len(JobState)
