"""Which nodes a job avoids for what it has met there, and for how long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.jobs import recovery
from platform_core.jobs.ends import EndReason
from platform_core.jobs.job import Failure
from platform_core.units import DAY_MS

FAULTS_OF_NODES = {"node_lost", "gpu_failed", "launcher", "disk_full", "hang", "silent_corruption"}


@pytest.mark.parametrize("end", list(EndReason))
def test_only_faults_of_its_own_keep_a_job_off_a_node(end: EndReason):
    failures = [Failure("node-b", at_ms, attempt, end=end) for attempt, at_ms in ((1, 1_000), (2, 2_000))]
    assert recovery.avoided(failures, 3_000) == (("node-b",) if end.value in FAULTS_OF_NODES else ())


@given(st.lists(st.integers(0, DAY_MS), min_size=2, max_size=30))
def test_no_node_is_avoided_for_ever(moments: list[int]):
    failures = [Failure("node-b", at, n, end=EndReason.NODE_LOST) for n, at in enumerate(moments)]
    assert recovery.avoided(failures, max(moments) + 1) == ("node-b",)
    assert recovery.avoided(failures, max(moments) + recovery.LONGEST_AVOIDED_MS) == ()


def test_ranks_of_one_attempt_count_once():
    failures = [Failure("node-b", at, 1, end=EndReason.NODE_LOST) for at in (1_000, 1_500)]
    assert recovery.avoided(failures, 2_000) == ()
