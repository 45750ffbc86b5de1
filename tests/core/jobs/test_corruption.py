"""A job whose ranks computed different results."""

from platform_core.checkpointing.restore import Chosen
from platform_core.jobs import events as ev
from platform_core.jobs.effects import StopMembers
from platform_core.jobs.ends import EndReason
from platform_core.jobs.job import Stop
from platform_core.jobs.states import JobState
from tests.core.jobs.situations import EXITED, PREPARING, Story, running

EARLIER = Chosen("ckpt-40", 1, 40, "the newest good checkpoint is ckpt-40 at step 40")
CORRUPTION = EndReason.SILENT_CORRUPTION


def saved_twice() -> Story:
    return running().save(40).save(50)


def corrupted(story: Story, *nodes: str, instead: Chosen | None = EARLIER, attempt: int = 1) -> Story:
    return story.tell(
        ev.Corrupted,
        attempt=attempt, step=60, nodes=nodes, damaged=("ckpt-50",), instead=instead, cause="rank 1 on node-b differs",
    )  # fmt: skip


def both_end(story: Story) -> Story:
    return story.see("node-a", EXITED, 1, end=CORRUPTION).see("node-b", EXITED, 1, end=CORRUPTION)


def test_it_stops_and_restarts_from_the_checkpoint_before_the_difference() -> None:
    story = corrupted(saved_twice(), "node-b")
    assert story.told(StopMembers) == [StopMembers(("node-a", "node-b"), 10_000)]
    job = both_end(story).job
    assert (job.state, job.end, job.latest_checkpoint, job.latest_step) == (
        JobState.PENDING, CORRUPTION, "ckpt-40", 40,
    )  # fmt: skip
    assert [(failure.node, failure.end) for failure in job.failures] == [("node-b", CORRUPTION)]
    assert job.reason == (
        "ranks computed different results at step 60: rank 1 on node-b differs; restart 1 of 10 from checkpoint ckpt-40"
    )


def test_the_order_of_the_news_does_not_matter() -> None:
    first, last = both_end(corrupted(saved_twice(), "node-b")), corrupted(both_end(saved_twice()), "node-b")
    for story in (first, last):
        assert story.job.latest_checkpoint == "ckpt-40"
        assert [failure.node for failure in story.job.failures] == ["node-b"]
    between = corrupted(saved_twice().see("node-a", EXITED, 1, end=EndReason.NETWORK), "node-b")
    job = between.see("node-b", EXITED, 1, end=CORRUPTION).job
    assert (job.end, [failure.node for failure in job.failures]) == (CORRUPTION, ["node-b"])


def test_without_a_sound_checkpoint_it_begins_again() -> None:
    job = both_end(corrupted(saved_twice(), "node-b", instead=None)).job
    assert (job.state, job.latest_checkpoint, job.latest_step) == (JobState.PENDING, "", 0)
    assert job.reason.endswith("from the beginning")


def test_a_later_attempt_that_began_from_a_damaged_one_stops_as_well() -> None:
    story = both_end(saved_twice()).place("node-a", "node-b").see("node-a", PREPARING)
    assert corrupted(story, "node-b").job.stop is Stop.RESTART
    assert story.job.latest_checkpoint == "ckpt-40"


def test_a_later_attempt_that_began_from_a_sound_one_goes_on() -> None:
    story = both_end(corrupted(saved_twice(), "node-b")).place("node-a", "node-c")
    before = story.job
    assert corrupted(story, "node-b").job is before


def test_where_nobody_is_guilty_no_node_is_excluded() -> None:
    story = saved_twice()
    for attempt in (1, 2, 3):
        story = both_end(corrupted(story, attempt=attempt))
        assert story.job.excluded_nodes == ()
        story.run("node-a", "node-b").save(40 + attempt)
    assert {failure.node for failure in story.job.failures} == {""}
