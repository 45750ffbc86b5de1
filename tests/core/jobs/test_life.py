"""The ordinary and the unlucky lives of a job, one situation a test."""

from __future__ import annotations

import pytest

from platform_core.errors import IllegalTransition
from platform_core.jobs import events as ev
from platform_core.jobs.effects import GangEnded, HintScheduler, ReleaseSlots, StopMembers
from platform_core.jobs.ends import EndReason
from platform_core.jobs.job import Member, Stop
from platform_core.jobs.states import JobState
from platform_core.jobs.transitions import advance
from tests.core.jobs.situations import (
    EXITED,
    HOUR_MS,
    LOST,
    PREPARING,
    RUNNING,
    members,
    running,
    waiting,
)


def test_a_new_job_waits_and_wakes_the_scheduler():
    job = waiting().job
    assert (job.state, job.version, job.attempt) == (JobState.PENDING, 1, 0)


def test_the_first_sign_of_life_initializes_and_the_last_one_runs():
    story = waiting().place("node-a", "node-b")
    assert story.job.state is JobState.SCHEDULED
    assert story.see("node-a", PREPARING).job.state is JobState.INITIALIZING
    assert story.see("node-a", RUNNING).job.state is JobState.INITIALIZING
    assert story.see("node-b", PREPARING).job.state is JobState.INITIALIZING
    assert story.see("node-b", RUNNING).job.state is JobState.RUNNING


def test_a_job_succeeds_when_every_member_ended_with_zero():
    story = running()
    story.see("node-b", EXITED, 0)
    assert story.job.state is JobState.RUNNING
    assert story.effects == [ReleaseSlots(("node-b",)), HintScheduler()]
    story.see("node-a", EXITED, 0)
    assert story.job.state is JobState.SUCCEEDED
    assert story.job.finished_ms == story.now_ms
    assert story.told(GangEnded) == [
        GangEnded(JobState.SUCCEEDED, EndReason.SUCCEEDED, "all its ranks ended with exit code 0")
    ]


def test_a_script_that_ends_before_anyone_saw_it_run_succeeds():
    story = waiting(num_gpus=2).place("node-a").see("node-a", EXITED, 0)
    assert story.job.state is JobState.SUCCEEDED


def test_a_checkpoint_is_written_while_running_and_remembered():
    story = running().tell(ev.CheckpointStarted, attempt=1, step=50)
    assert story.job.state is JobState.CHECKPOINTING
    story.tell(ev.CheckpointSaved, attempt=1, step=50, checkpoint="ckpt-50")
    assert (story.job.state, story.job.latest_checkpoint) == (JobState.RUNNING, "ckpt-50")


def test_a_job_whose_checkpoint_could_not_be_written_goes_on():
    story = running().tell(ev.CheckpointStarted, attempt=1, step=50)
    story.tell(ev.CheckpointFailed, attempt=1, step=50, cause="the disk is full")
    assert (story.job.state, story.job.latest_checkpoint) == (JobState.RUNNING, "")
    before = story.job
    assert story.tell(ev.CheckpointFailed, attempt=1, step=50, cause="the disk is full").job == before
    story.tell(ev.CheckpointFailed, attempt=1, step=60, cause="the disk is full")
    assert (story.job.state, story.job.unsaved_step) == (JobState.RUNNING, 60)  # it was heard of late


def test_an_older_checkpoint_that_arrives_late_does_not_win():
    story = running().tell(ev.CheckpointSaved, attempt=1, step=50, checkpoint="ckpt-50")
    story.tell(ev.CheckpointSaved, attempt=1, step=40, checkpoint="ckpt-40")
    story.tell(ev.CheckpointStarted, attempt=1, step=50)
    assert (story.job.state, story.job.latest_checkpoint) == (JobState.RUNNING, "ckpt-50")


def test_a_restarted_attempt_may_save_a_lower_step_again():
    story = running().tell(ev.CheckpointSaved, attempt=1, step=50, checkpoint="ckpt-50")
    story.fail("node-a").run("node-a", "node-b")
    story.tell(ev.CheckpointSaved, attempt=2, step=30, checkpoint="ckpt-30")
    assert story.job.latest_checkpoint == "ckpt-30"


def test_the_last_checkpoint_may_be_registered_after_the_job_has_ended():
    story = running().see("node-a", EXITED, 0).see("node-b", EXITED, 0)
    story.tell(ev.CheckpointSaved, attempt=1, step=90, checkpoint="ckpt-90")
    assert (story.job.state, story.job.latest_checkpoint) == (JobState.SUCCEEDED, "ckpt-90")


def test_a_phase_that_is_known_already_is_no_news_whatever_its_reason():
    story = waiting().place("node-a", "node-b").see("node-a", PREPARING)
    before = story.job
    assert story.see("node-a", PREPARING, reason="still fetching").job is before


def test_without_a_checkpoint_of_its_own_a_job_restarts_from_the_one_it_resumed_from():
    story = running(resume_from="ckpt-7").fail("node-a")
    assert story.job.reason.endswith("restart 1 of 3 from checkpoint ckpt-7")


def test_a_checkpoint_of_an_attempt_that_never_was_is_ignored():
    story = waiting().tell(ev.CheckpointSaved, attempt=0, step=5, checkpoint="ckpt-5")
    assert story.job.latest_checkpoint == ""


def test_one_failed_rank_stops_the_whole_gang_and_starts_it_again():
    story = running().tell(ev.CheckpointSaved, attempt=1, step=50, checkpoint="ckpt-50")
    story.see("node-b", EXITED, 1)
    assert story.job.state is JobState.RUNNING
    assert story.job.stopping
    assert story.told(StopMembers) == [StopMembers(("node-a",), 10_000)]
    story.see("node-a", EXITED, 143)
    job = story.job
    assert (job.state, job.restarts, job.stop) == (JobState.PENDING, 1, Stop.NONE)
    assert job.reason == "rank 1 on node-b ended with exit code 1; restart 1 of 3 from checkpoint ckpt-50"
    assert [failure.node for failure in job.failures] == ["node-b"]
    assert story.told(GangEnded) == [GangEnded(JobState.PENDING, EndReason.SCRIPT_ERROR, job.reason)]


def test_a_rank_killed_by_a_signal_is_told_as_such():
    story = running().fail("node-b", 137)
    assert story.job.reason.startswith("rank 1 on node-b was killed by signal 9 (exit code 137);")


def test_the_launchers_trouble_restarts_even_with_exit_code_zero():
    story = running().see("node-a", EXITED, 0, "no space left on /var", EndReason.LAUNCHER)
    assert story.job.stop is Stop.RESTART
    assert story.job.reason == "node-a could not run rank 0: no space left on /var"


def test_an_exit_code_counts_only_at_the_end():
    story = waiting().place("node-a", "node-b").see("node-a", RUNNING, 0).see("node-b", LOST, 0)
    assert [member.exit_code for member in story.job.members] == [None, None]


def test_an_end_without_an_exit_code_is_a_failure():
    story = running().see("node-a", EXITED)
    assert story.job.reason == "rank 0 on node-a ended, its exit code is not known"


def test_the_node_that_failed_twice_is_avoided_for_a_while():
    story = running()
    for excluded in ((), ("node-b",)):
        story.see("node-b", EXITED, 125, "no space left", EndReason.DISK_FULL).see("node-a", EXITED, 143)
        assert story.job.excluded_nodes == excluded
        if not excluded:
            story.run("node-a", "node-b")
    assert story.job.reason.endswith("restart 2 of 10 from the beginning, for a while without node-b")


def test_a_script_that_always_fails_ends_after_three_restarts():
    story = running()
    for _ in range(3):
        story.fail("node-a").run("node-a", "node-b")
    story.fail("node-a")
    assert story.job.state is JobState.FAILED
    limit = "it was restarted 3 times without progress, and 3 is the limit"
    told = f"rank 0 on node-a ended with exit code 1; {limit}"
    assert story.job.reason == told


def test_the_launchers_sentence_is_told_without_its_full_stop():
    story = running()
    story.see("node-a", EXITED, 125, "The disk is full.", EndReason.LAUNCHER).see("node-b", EXITED, 143)
    assert (
        story.job.reason
        == "node-a could not run rank 0: The disk is full; restart 1 of 10 from the beginning"
    )


def test_a_lost_node_is_blamed_and_not_its_peers_whose_collectives_failed_first():
    story = running().see("node-a", EXITED, 1)
    assert story.job.failures[0].node == "node-a"
    story.tell(ev.NodeLost, node="node-b", cause="no heartbeat for 31 s, the limit is 30 s")
    job = story.job
    assert job.state is JobState.PENDING
    assert [(failure.node, failure.at_ms) for failure in job.failures] == [("node-b", story.now_ms)]
    assert job.reason.startswith("rank 1 on node-b was lost: no heartbeat for 31 s, the limit is 30 s;")


def test_the_launchers_trouble_stays_counted_when_another_node_is_lost_as_well():
    story = running().see("node-a", EXITED, 1, "no space", EndReason.LAUNCHER)
    story.tell(ev.NodeLost, node="node-b")
    assert [failure.node for failure in story.job.failures] == ["node-a", "node-b"]


def test_two_nodes_lost_together_are_both_counted():
    story = running().tell(ev.NodeLost, node="node-a").tell(ev.NodeLost, node="node-b")
    assert [failure.node for failure in story.job.failures] == ["node-a", "node-b"]
    assert story.job.restarts == 1


def test_blame_of_an_earlier_attempt_stays_when_a_node_is_lost_later():
    story = running().fail("node-a").run("node-a", "node-b")
    story.see("node-a", EXITED, 1).tell(ev.NodeLost, node="node-b")
    assert [failure.node for failure in story.job.failures] == ["node-a", "node-b"]


def test_a_lost_node_that_comes_back_is_ignored():
    story = running().tell(ev.NodeLost, node="node-b")
    before = story.job
    assert story.see("node-b", RUNNING).job is before
    assert story.see("node-b", EXITED, 0).job is before


def test_a_waiting_job_is_cancelled_at_once():
    story = waiting().tell(ev.CancelRequested, actor="user:alice", cause="wrong data")
    assert story.job.state is JobState.CANCELLED
    assert story.job.reason == "cancelled by alice: wrong data"
    assert story.job.finished_ms == story.now_ms


def test_a_running_job_is_cancelled_when_its_last_member_has_ended():
    story = running().tell(ev.CancelRequested, actor="user:alice")
    assert story.effects == [StopMembers(("node-a", "node-b"), 30_000)]
    assert (story.job.state, story.job.stop) == (JobState.RUNNING, Stop.CANCEL)
    story.see("node-a", EXITED, 143)
    assert story.job.state is JobState.RUNNING
    story.see("node-b", EXITED, 1)
    assert (story.job.state, story.job.reason) == (JobState.CANCELLED, "cancelled by alice")
    assert story.job.failures == ()


def test_a_job_that_is_asked_twice_to_stop_tells_its_nodes_once():
    story = running().tell(ev.CancelRequested)
    before = story.job
    story.tell(ev.CancelRequested)
    assert story.job is before
    assert story.effects == []


def test_the_first_to_cancel_is_the_one_who_cancelled():
    story = running().tell(ev.CancelRequested, actor="user:alice").tell(ev.CancelRequested, actor="user:bob")
    assert story.job.reason == "cancelled by alice"


@pytest.mark.parametrize("first", [ev.PreemptRequested, ev.TimeLimitReached])
def test_a_persons_cancel_is_the_last_word(first: type[ev.Event]):
    story = running(max_runtime_hours=0.001).tell(first, at_ms=HOUR_MS).tell(ev.CancelRequested)
    assert story.told(StopMembers) == []
    story.see("node-a", EXITED, 0).see("node-b", EXITED, 0)
    assert story.job.state is JobState.CANCELLED


def test_a_finished_job_cannot_be_cancelled():
    story = running().see("node-a", EXITED, 0).see("node-b", EXITED, 0)
    with pytest.raises(IllegalTransition) as caught:
        story.tell(ev.CancelRequested)
    assert caught.value.code == "illegal_transition"
    assert str(caught.value) == "job-1 has already succeeded; only a waiting or running job can be cancelled"


def test_a_preempted_job_waits_and_resumes_from_its_checkpoint():
    story = running(preemptible=True).tell(ev.PreemptRequested, cause="job-2 needs 4 GPUs", attempt=1)
    assert story.effects == [StopMembers(("node-a", "node-b"), 60_000)]
    story.tell(ev.CheckpointSaved, attempt=1, step=70, checkpoint="ckpt-70")
    story.see("node-a", EXITED, 0).see("node-b", EXITED, 0)
    job = story.job
    assert (job.state, job.restarts, job.started_ms) == (JobState.PREEMPTED, 0, None)
    assert job.reason == "job-2 needs 4 GPUs"
    story.place("node-c", "node-d")
    assert (story.job.state, story.job.attempt, story.job.latest_checkpoint) == (
        JobState.SCHEDULED,
        2,
        "ckpt-70",
    )


def test_a_late_preemption_of_an_earlier_attempt_is_ignored():
    story = running().fail("node-a").run("node-a", "node-b")
    before = story.job
    assert story.tell(ev.PreemptRequested, attempt=1).job is before


@pytest.mark.parametrize(
    ("notice_ms", "grace_ms"), [(120_000, 120_000), (45_000, 45_000), (24 * HOUR_MS, 15 * 60_000), (-1, 0)]
)
def test_a_job_on_a_node_that_is_taken_away_has_what_is_left_of_the_notice(notice_ms: int, grace_ms: int):
    story = running()
    story.tell(ev.PreemptRequested, attempt=1, leaves_ms=story.now_ms + 1_000 + notice_ms)
    assert story.told(StopMembers) == [StopMembers(("node-a", "node-b"), grace_ms)]
    assert story.job.stop_grace_ms == grace_ms


def test_an_operator_may_give_more_time_to_save():
    job = running().job
    for event, grace_ms in (
        (ev.PreemptRequested(at_ms=5_000), 300_000),
        (ev.PreemptRequested(at_ms=5_000, leaves_ms=HOUR_MS), 15 * 60_000),
        (ev.CancelRequested(at_ms=5_000), 30_000),
    ):
        step = advance(job, event, save_grace_ms=300_000)
        assert step.effects == (StopMembers(("node-a", "node-b"), grace_ms),)


def test_a_rank_that_was_stopped_by_its_agent_alone_has_not_succeeded():
    story = running().see("node-a", EXITED, 0, "It was asked to stop, and did.", EndReason.STOPPED)
    assert story.job.stop is Stop.RESTART


def test_a_job_over_its_time_limit_fails_with_both_numbers():
    story = running(max_runtime_hours=2)
    started = story.job.started_ms
    assert started is not None
    story.tell(ev.TimeLimitReached, at_ms=started + 2 * HOUR_MS)
    story.see("node-a", EXITED, 0).see("node-b", EXITED, 0)
    assert (story.job.state, story.job.reason) == (JobState.FAILED, "ran 2.0 h, its limit is 2 h")


def test_a_time_limit_that_was_meant_for_an_earlier_attempt_is_ignored():
    story = running(max_runtime_hours=2)
    assert story.tell(ev.TimeLimitReached, at_ms=HOUR_MS).job.stop is Stop.NONE


def test_news_of_another_attempt_changes_nothing():
    story = running().fail("node-a").run("node-a", "node-b")
    before = story.job
    for attempt in (1, 3):
        story.tell(ev.MemberObserved, attempt=attempt, node="node-a", phase=EXITED, exit_code=1)
        story.tell(ev.CheckpointSaved, attempt=attempt, step=99, checkpoint="ckpt-99")
        assert story.job is before
        assert story.effects == []


def test_a_placement_that_arrives_twice_is_one_placement():
    story = waiting().place("node-a", "node-b")
    before = story.job
    assert story.tell(ev.Placed, attempt=1, members=members("node-c", "node-d")).job is before


@pytest.mark.parametrize(
    ("attempt", "gang", "told"),
    [
        (2, members("node-a", "node-b"), "it names attempt 2, but the next one is 1"),
        (1, (), "it gives 0 slots, but the job needs 4"),
        (1, members("node-a"), "it gives 2 slots, but the job needs 4"),
        (1, members("node-a", "node-b", "node-c"), "it gives 6 slots, but the job needs 4"),
        (1, (Member("node-a", 0, (0, 0)), Member("node-b", 1, (0, 1))), "it gives 3 slots, but the job needs 4"),
        (1, members("node-a", "node-a"), "it names a node twice"),
        (1, (Member("node-a", 1, (0, 1)), Member("node-b", 2, (0, 1))), "its ranks are 1, 2, but must count up from 0"),
        (1, (Member("node-a", 0, (0, 1, 2, 3)), Member("node-b", 1, ())), "a member has no slots or has begun already"),
    ],
)  # fmt: skip
def test_a_placement_that_is_no_whole_gang_is_refused(attempt: int, gang: tuple[Member, ...], told: str):
    with pytest.raises(IllegalTransition, match=told):
        waiting().tell(ev.Placed, attempt=attempt, members=gang)


def test_a_running_job_cannot_be_placed_again():
    with pytest.raises(IllegalTransition, match="job-1 is running; only a waiting job can be placed"):
        running().place("node-c", "node-d")


def test_a_member_that_vanished_counts_as_lost():
    story = running().see("node-b", LOST, reason="the agent knows nothing of it")
    assert story.job.stop is Stop.RESTART
    assert story.job.reason == "rank 1 on node-b was lost: the agent knows nothing of it"


def test_the_version_counts_changes_only():
    story = waiting().place("node-a", "node-b")
    assert story.job.version == 2
    step = advance(story.job, ev.Submitted(at_ms=1))
    assert step.job is story.job


def test_a_rank_that_died_is_the_cause_and_not_its_peer_that_lost_the_connection_and_was_heard_of_first():
    story = running().see("node-a", EXITED, 1, "Connection closed by peer.", EndReason.NETWORK)
    assert story.job.end is EndReason.NETWORK
    story.see("node-b", EXITED, 1, "CUDA out of memory.", EndReason.OUT_OF_MEMORY_GPU)
    job = story.job
    assert (job.state, job.end) == (JobState.PENDING, EndReason.OUT_OF_MEMORY_GPU)
    assert [(failure.node, failure.end) for failure in job.failures] == [
        ("node-b", EndReason.OUT_OF_MEMORY_GPU)
    ]
    assert job.reason.startswith("node-b: CUDA out of memory;")


def test_a_network_failure_stays_the_cause_when_the_others_only_stopped():
    story = running().see("node-a", EXITED, 1, "Connection closed by peer.", EndReason.NETWORK)
    story.see("node-b", EXITED, 143, "It was asked to stop, and did.", EndReason.STOPPED)
    assert (story.job.end, [failure.node for failure in story.job.failures]) == (
        EndReason.NETWORK,
        ["node-a"],
    )
