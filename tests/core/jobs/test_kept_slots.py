"""What a gang keeps on its healthy nodes until it restarts."""

from platform_core.jobs.ends import EndReason
from platform_core.jobs.job import Member, MemberPhase
from platform_core.jobs.kept_slots import KEPT_MS, NOTHING, Kept, kept_slots, restarts


def ended(node: str, end: EndReason, phase: MemberPhase = MemberPhase.EXITED) -> Member:
    return Member(node, 0, (0, 1), phase, 1, "", end)


def test_the_nodes_that_are_at_fault_are_not_kept() -> None:
    members = [
        ended("a", EndReason.STOPPED), ended("b", EndReason.KILLED), ended("c", EndReason.GPU_FAILED),
        ended("d", EndReason.NODE_LOST, MemberPhase.LOST), ended("e", EndReason.NETWORK),
    ]  # fmt: skip
    kept = kept_slots(members, {"e"}, 1_000)
    assert kept == Kept((("a", 2), ("b", 2)), 1_000 + KEPT_MS)


def test_slots_of_members_that_still_run_are_theirs_anyway() -> None:
    running = ended("a", EndReason.SUCCEEDED, MemberPhase.RUNNING)
    assert kept_slots([running], (), 1_000) == NOTHING


def test_nothing_is_kept_through_a_long_pause() -> None:
    members = [ended("a", EndReason.STOPPED)]
    assert kept_slots(members, (), 1_000, not_before_ms=11_000) != NOTHING
    assert kept_slots(members, (), 1_000, not_before_ms=1_000 + KEPT_MS) == NOTHING


def test_only_failures_that_are_tried_again_keep_their_place() -> None:
    assert restarts(EndReason.NODE_LOST)
    assert restarts(EndReason.KILLED)
    assert not any(map(restarts, [None, EndReason.PREEMPTED, EndReason.CANCELLED, EndReason.SUCCEEDED]))


def test_it_keeps_its_spares_even_when_all_its_nodes_are_lost() -> None:
    lost = [Member("node-a", 0, (0, 1), MemberPhase.LOST, end=EndReason.NODE_LOST)]
    kept = kept_slots(lost, (), 1_000, spares=[("node-s", 2), ("node-x", 2)])
    assert (kept.slots, kept.with_spares) == ((("node-s", 2), ("node-x", 2)), True)
    assert kept_slots(lost, ("node-x",), 1_000, spares=[("node-x", 2)]) == NOTHING
