"""What becomes of a job that failed: another try, after a pause, or the end."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.errors import IllegalTransition
from platform_core.jobs import events as ev
from platform_core.jobs.ends import EndReason
from platform_core.jobs.job import Failure
from platform_core.jobs.recovery import INFRASTRUCTURE_RESTARTS, LONGEST_PAUSE_MS, SOON_MS, losses_ms
from platform_core.jobs.states import JobState
from tests.core.jobs.situations import EXITED, HOUR_MS, PREPARING, RUNNING, Story, running, waiting

SCRIPT, INFRASTRUCTURE, OUT_OF_MEMORY = (
    EndReason.SCRIPT_ERROR,
    EndReason.LAUNCHER,
    EndReason.OUT_OF_MEMORY_HOST,
)


def one(**fields: object) -> Story:
    """A job of one node that has just been submitted."""
    return waiting(num_gpus=2, **fields)


def fail(story: Story, exit_code: int = 1, *, after_ms: int = HOUR_MS, end: EndReason = SCRIPT) -> Story:
    """Another attempt, which fails so long after its start."""
    return story.run("node-a", for_ms=after_ms).see("node-a", EXITED, exit_code, "", end)


def pause_ms(story: Story) -> int:
    return max(0, story.job.not_before_ms - story.now_ms)


def test_a_wrong_command_is_tried_twice_and_not_four_times():
    story = fail(one(), 2, after_ms=2_000)
    assert (story.job.state, story.job.restarts) == (JobState.PENDING, 1)
    fail(story, 2, after_ms=2_000)
    assert story.job.state is JobState.FAILED
    again = "it failed in the same way the last time, 3 s after its start"
    assert (
        story.job.reason
        == f"rank 0 on node-a ended with exit code 2; {again}: another restart would not help"
    )


def fail_at(
    story: Story,
    step: int,
    exit_code: int = 1,
    *,
    end: EndReason = SCRIPT,
    kept: int = 0,
    after_ms: int = HOUR_MS,
) -> Story:
    """Another attempt, which fails so long after its start, once its script has told of this step."""
    story.run("node-a", for_ms=after_ms)
    if kept:
        story.save(kept)
    story.job = replace(story.job, reached=step)
    return story.see("node-a", EXITED, exit_code, "", end)


def test_the_step_is_named_where_both_are_the_same():
    """A restart from a checkpoint reaches the step sooner, so the time would be that of neither attempt."""
    story = fail_at(one(), 60, after_ms=28_000)
    fail_at(story, 60, after_ms=14_200)
    assert "in the same way the last time, at step 60: another restart" in story.job.reason


@pytest.mark.parametrize("end", [SCRIPT, EndReason.OUT_OF_MEMORY_GPU])
def test_what_fails_at_the_same_step_twice_is_not_tried_a_third_time_however_long_it_ran(end: EndReason):
    story = fail_at(one(), 5_000, end=end, kept=4_000)
    assert story.job.state is JobState.PENDING
    fail_at(story, 5_000, end=end)
    assert story.job.state is JobState.FAILED
    assert story.job.reason.endswith(
        "it failed in the same way the last time, at step 5,000: another restart would not help"
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((5_000, 1, SCRIPT), (5_010, 1, SCRIPT)),  # at another step
        ((5_000, 1, SCRIPT), (5_000, 2, SCRIPT)),  # otherwise
        ((5_000, 137, SCRIPT), (5_000, 137, SCRIPT)),  # somebody killed it
        ((5_000, 1, INFRASTRUCTURE), (5_000, 1, INFRASTRUCTURE)),  # the platform may mend itself
        ((-1, 1, SCRIPT), (-1, 1, SCRIPT)),  # it tells no steps
    ],
)
def test_a_failure_at_another_step_or_of_another_kind_is_tried_again(
    first: tuple[int, int, EndReason], second: tuple[int, int, EndReason]
):
    story = one()
    for step, code, end in (first, second):
        fail_at(story, step, code, end=end)
    assert (story.job.state, story.job.restarts) == (JobState.PENDING, 2)


def test_a_failure_at_the_same_step_is_tried_again_after_a_newer_checkpoint():
    story = fail_at(one(), 5_000, kept=4_000)
    fail_at(story, 5_000, kept=4_500)
    assert story.job.state is JobState.PENDING


def test_a_wrong_command_of_a_gang_ends_it_whichever_rank_is_heard_of_first():
    story = waiting()
    for first, second in (("node-a", "node-b"), ("node-b", "node-a")):
        story.place("node-a", "node-b").see(first, EXITED, 2).see(second, EXITED, 2)
    assert story.job.state is JobState.FAILED


def test_a_job_whose_data_needs_review_waits_for_a_person_and_is_not_tried_again():
    story = fail(one(), end=EndReason.DATA_REVIEW)
    assert (story.job.state, story.job.restarts) == (JobState.FAILED, 0)
    assert "another try would read the same data" in story.job.reason


def test_a_job_that_did_not_get_its_data_whole_is_tried_again():
    story = one().place("node-a").see("node-a", EXITED, 125, "", EndReason.DATA_REVIEW)
    assert (story.job.state, story.job.restarts) == (JobState.PENDING, 1)


def test_what_ends_before_anybody_saw_it_run_has_failed_soon():
    story = one()
    for _ in range(2):
        story.place("node-a").see("node-a", EXITED, 2)
    assert story.job.state is JobState.FAILED


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((1, SCRIPT, 2_000), (2, SCRIPT, 2_000)),  # otherwise
        ((1, SCRIPT, 2_000), (1, SCRIPT, HOUR_MS)),  # it got further
        ((1, SCRIPT, HOUR_MS), (1, SCRIPT, HOUR_MS)),
        ((137, SCRIPT, 2_000), (137, SCRIPT, 2_000)),  # somebody killed it
        ((125, INFRASTRUCTURE, 2_000), (125, INFRASTRUCTURE, 2_000)),  # the platform may mend itself
    ],
)
def test_another_failure_or_a_later_one_is_tried_again(
    first: tuple[int, EndReason, int], second: tuple[int, EndReason, int]
):
    story = one()
    for exit_code, end, after_ms in (first, second):
        fail(story, exit_code, after_ms=after_ms, end=end)
    assert story.job.state is JobState.PENDING


def test_a_job_that_needs_more_memory_than_it_may_have_ends_the_second_time():
    story = one()
    for _ in range(2):
        fail(story, 137, after_ms=2_000, end=OUT_OF_MEMORY)
    assert story.job.state is JobState.FAILED


def test_each_restart_without_progress_waits_twice_as_long():
    story = one(max_restarts=7)
    pauses = [pause_ms(fail(story)) for _ in range(7)]
    assert pauses == [10_000, 20_000, 40_000, 80_000, 160_000, LONGEST_PAUSE_MS, LONGEST_PAUSE_MS]


def test_the_first_restart_after_the_platforms_fault_is_immediate():
    story = one()
    pauses = [pause_ms(fail(story, 125, end=INFRASTRUCTURE)) for _ in range(3)]
    assert pauses == [0, 10_000, 20_000]


def test_a_job_is_not_placed_before_its_pause_is_over():
    job = fail(one()).job
    with pytest.raises(IllegalTransition, match="it restarts in 4 s"):
        Story(job, now_ms=job.not_before_ms - 5_000).tell(ev.Placed, attempt=2, members=job.members)


def test_a_newer_checkpoint_than_before_makes_the_count_begin_again():
    story = one()
    for step in range(1, 10):
        story.run("node-a").save(step).see("node-a", EXITED, 1)
        assert f"restart 1 of 3 from checkpoint ckpt-{step}" in story.job.reason
    assert (story.job.state, story.job.restarts) == (JobState.PENDING, 9)


def test_the_same_checkpoint_again_is_no_progress():
    story = one().run("node-a").save(50).see("node-a", EXITED, 1)
    for step in (30, 50, 50):
        story.run("node-a").save(step).see("node-a", EXITED, 1)
    assert story.job.state is JobState.FAILED


def test_a_checkpoint_that_is_heard_of_only_at_the_end_counts_for_its_attempt():
    story = running().see("node-a", EXITED, 1).save(50).see("node-b", EXITED, 143)
    assert story.job.failures[0].step == 50
    story.run("node-a", "node-b").fail("node-a")
    assert "restart 2 of 3" in story.job.reason


def test_lost_nodes_are_counted_apart_from_the_scripts_failures():
    story = one()
    for _ in range(3):
        story.run("node-a").tell(ev.NodeLost, node="node-a")
        fail(story)
    assert (story.job.state, story.job.restarts) == (JobState.PENDING, 6)
    fail(story)
    assert story.job.state is JobState.FAILED
    assert story.job.reason.endswith("it was restarted 3 times without progress, and 3 is the limit")


def test_a_platform_that_never_mends_ends_the_job_too():
    story = one()
    for _ in range(INFRASTRUCTURE_RESTARTS):
        assert fail(story, 125, end=INFRASTRUCTURE).job.state is JobState.PENDING
    assert fail(story, 125, end=INFRASTRUCTURE).job.state is JobState.FAILED


def test_a_job_that_may_not_be_restarted_never_is():
    for end in (SCRIPT, INFRASTRUCTURE):
        story = fail(one(max_restarts=0), 125, end=end)
        assert story.job.state is JobState.FAILED
        assert story.job.reason.endswith("; max_restarts is 0, so it is not restarted")


def test_a_restarted_and_a_preempted_job_have_waited_as_long_as_before_they_started():
    story = waiting()
    story.now_ms += 600_000
    story.place("node-a", "node-b")
    waited_ms = story.now_ms - story.job.submitted_ms
    for node in ("node-a", "node-b"):
        story.see(node, PREPARING).see(node, RUNNING)
    story.now_ms += HOUR_MS
    story.fail("node-a")
    assert story.now_ms - story.job.waiting_since_ms == waited_ms
    story.run("node-a", "node-b")
    waited_ms += 10_000  # the pause
    story.tell(ev.PreemptRequested).see("node-a", EXITED, 0).see("node-b", EXITED, 0)
    assert story.job.state is JobState.PREEMPTED
    assert story.now_ms - story.job.waiting_since_ms == pytest.approx(waited_ms, abs=1_000)


ATTEMPTS = st.lists(
    st.tuples(
        st.sampled_from((1, 2, 137)),
        st.sampled_from((SCRIPT, SCRIPT, OUT_OF_MEMORY, INFRASTRUCTURE)),
        st.sampled_from((1_000, 2_000, HOUR_MS)),
        st.integers(0, 6),
    ),
    max_size=40,
)


@given(ATTEMPTS, st.integers(0, 4))
def test_restarts_are_bounded_and_no_wrong_command_is_tried_a_third_time(
    attempts: list[tuple[int, EndReason, int, int]], max_restarts: int
):
    story = one(max_restarts=max_restarts)
    furthest, past = -1, []
    for exit_code, end, after_ms, step in attempts:
        if story.job.finished:
            break
        story.run("node-a", for_ms=after_ms)
        if step:
            story.save(step)
        story.see("node-a", EXITED, exit_code, "", end)
        if story.job.latest_step > furthest:
            furthest, past = story.job.latest_step, []
        past.append((exit_code, end, after_ms <= SOON_MS))
    restarted = past if not story.job.finished else past[:-1]
    own = [each for each in restarted if each[1] is not INFRASTRUCTURE]
    assert len(own) <= max_restarts
    assert len(restarted) - len(own) <= (max(INFRASTRUCTURE_RESTARTS, max_restarts) if max_restarts else 0)
    for before, after in pairwise(restarted):
        wrong = before == after and before[2] and before[1] is not INFRASTRUCTURE
        assert not wrong or before[:2] == (137, SCRIPT)


def test_losses_are_the_attempts_that_machines_ended_whatever_else_failed() -> None:
    failures = [
        Failure("node-b", 50, attempt=3, end=EndReason.GPU_FAILED),
        Failure("node-a", 10, attempt=1, end=EndReason.NODE_LOST),
        Failure("node-b", 12, attempt=1, end=EndReason.NODE_LOST),
        Failure("node-a", 30, attempt=2, end=EndReason.SCRIPT_ERROR),
    ]
    assert losses_ms(failures) == (12, 50)
    assert losses_ms([]) == ()
