"""What an attempt should begin from turns out to be damaged."""

from __future__ import annotations

from platform_core.checkpointing.restore import Chosen
from platform_core.jobs import events as ev
from platform_core.jobs.effects import GangEnded, StopMembers
from platform_core.jobs.ends import EndReason
from platform_core.jobs.job import Stop
from platform_core.jobs.states import JobState
from tests.core.jobs.situations import EXITED, LOST, PREPARING, Story, running, waiting

OLDER = Chosen(
    "ckpt-40", 1, 40, "the newest good checkpoint is ckpt-40 at step 40, after 1 newer damaged one"
)


def restoring() -> Story:
    """Its second attempt fetches what its first one saved at step 50."""
    story = running().tell(ev.CheckpointSaved, attempt=1, step=50, checkpoint="ckpt-50").fail("node-a")
    return story.place("node-a", "node-b").see("node-a", PREPARING).see("node-b", PREPARING)


def damaged(story: Story, instead: Chosen | None, checkpoint: str = "ckpt-50", attempt: int = 2) -> Story:
    return story.tell(
        ev.CheckpointDamaged,
        attempt=attempt, checkpoint=checkpoint, step=50, instead=instead, cause="model.pt is gone.",
    )  # fmt: skip


def test_it_goes_on_from_an_older_one_and_no_restart_is_counted_and_no_node_blamed():
    story = damaged(restoring(), OLDER)
    assert story.told(StopMembers) == [StopMembers(("node-a", "node-b"), 10_000)]
    failures = story.job.failures
    story.see("node-a", EXITED, 125, "it is gone", EndReason.LAUNCHER).see("node-b", EXITED, 143)
    job = story.job
    assert (job.state, job.restarts, job.stop, job.failures) == (JobState.PENDING, 1, Stop.NONE, failures)
    assert (job.latest_checkpoint, job.latest_step, job.latest_attempt) == ("ckpt-40", 40, 1)
    assert job.reason == (
        "checkpoint ckpt-50 at step 50 is damaged: model.pt is gone; it goes on from checkpoint ckpt-40 at step 40"
    )


def test_when_none_is_whole_it_has_failed_and_says_what_to_do():
    story = damaged(restoring(), None).see("node-a", EXITED, 125).see("node-b", EXITED, 143)
    reason = (
        "checkpoint ckpt-50 at step 50 is damaged: model.pt is gone; no other checkpoint of it is whole; "
        "clone it to begin again at step 0"
    )
    assert (story.job.state, story.job.reason) == (JobState.FAILED, reason)
    assert story.told(GangEnded) == [GangEnded(JobState.FAILED, EndReason.DATA_REVIEW, reason)]


def test_the_second_node_that_finds_it_tells_nothing_new():
    story = damaged(restoring(), OLDER)
    before = story.job
    assert damaged(story, Chosen("ckpt-30", 1, 30, "")).job is before
    assert story.effects == []


def test_also_what_it_was_submitted_with_may_be_damaged():
    story = waiting(resume_from="ckpt-7").place("node-a", "node-b")
    damaged(story, None, checkpoint="ckpt-7", attempt=1)
    before = story.job
    assert damaged(story, None, checkpoint="ckpt-7", attempt=1).job == before, "nor does the second node here"
    story.see("node-a", EXITED, 125).see("node-b", EXITED, 125)
    assert story.job.state is JobState.FAILED


def test_news_of_an_earlier_attempt_or_of_another_checkpoint_is_ignored():
    story = restoring()
    before = story.job
    assert damaged(story, OLDER, attempt=1).job is before
    assert damaged(story, OLDER, checkpoint="ckpt-9").job is before


def test_a_cancel_is_still_the_last_word():
    story = restoring().tell(ev.CancelRequested, actor="user:alice")
    damaged(story, OLDER).see("node-a", EXITED, 125).see("node-b", EXITED, 143)
    assert story.job.state is JobState.CANCELLED


def test_a_node_that_is_lost_meanwhile_is_blamed_for_that_alone():
    story = damaged(restoring(), OLDER).see("node-a", EXITED, 125).see("node-b", LOST)
    assert story.job.state is JobState.PENDING
    assert [failure.node for failure in story.job.failures] == ["node-a", "node-b"]
