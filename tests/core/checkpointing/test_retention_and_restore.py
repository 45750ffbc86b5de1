from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from platform_core.checkpointing.restore import Chosen, FromTheStart, NoneWhole, choose
from platform_core.checkpointing.retention import Kept, to_delete

CHECKPOINTS = st.lists(
    st.builds(
        Kept,
        st.uuids().map(str),
        st.integers(0, 20),
        st.integers(0, 20),
        st.booleans(),
        st.booleans(),
    ),
    max_size=12,
    unique_by=lambda one: one.id,
)


def test_the_oldest_go_first_and_the_newest_three_stay():
    kept = [Kept(f"ckpt-{n}", attempt=1, step=n * 10) for n in range(5)]
    assert to_delete(kept, keep_last=3) == ("ckpt-0", "ckpt-1")


def test_a_pinned_one_stays_and_takes_nobodys_place():
    kept = [Kept(f"ckpt-{n}", attempt=1, step=n * 10, pinned=n == 0) for n in range(5)]
    assert to_delete(kept, keep_last=3) == ("ckpt-1",)


def test_a_damaged_one_goes_and_a_good_one_stays_in_its_place():
    kept = [Kept(f"ckpt-{n}", attempt=1, step=n * 10, good=n != 4) for n in range(5)]
    assert to_delete(kept, keep_last=2) == ("ckpt-0", "ckpt-1", "ckpt-4")


@given(CHECKPOINTS, st.integers(-1, 5))
def test_the_newest_good_one_always_stays(kept: list[Kept], keep_last: int):
    deleted = set(to_delete(kept, keep_last))
    staying = [one for one in kept if one.id not in deleted]
    good = [one for one in kept if one.good]
    if good:
        chosen = choose(kept)
        assert isinstance(chosen, Chosen)
        assert chosen.id not in deleted
    assert all(one.id not in deleted for one in kept if one.pinned)
    left = sum(one.good and not one.pinned for one in staying)
    assert left <= max(1, keep_last)
    assert sum(one.good for one in staying) >= min(len(good), max(1, keep_last))


@given(CHECKPOINTS)
def test_deleting_twice_deletes_nothing_more(kept: list[Kept]):
    deleted = set(to_delete(kept, 2))
    assert to_delete([one for one in kept if one.id not in deleted], 2) == ()


def test_a_lower_step_of_a_later_attempt_is_the_newer_checkpoint():
    kept = [Kept("ckpt-a", attempt=1, step=90), Kept("ckpt-b", attempt=2, step=50)]
    assert choose(kept) == Chosen("ckpt-b", 2, 50, "the newest good checkpoint is ckpt-b at step 50")


def test_damaged_ones_are_passed_over_and_counted():
    kept = [Kept("ckpt-a", 1, 1), Kept("ckpt-b", 1, 2, good=False), Kept("ckpt-c", 1, 3, good=False)]
    chosen = choose(kept)
    assert isinstance(chosen, Chosen)
    assert chosen.reason == "the newest good checkpoint is ckpt-a at step 1, after 2 newer damaged ones"


def test_it_begins_at_the_start_only_where_nothing_was_saved_yet():
    assert choose([]) == FromTheStart("there is no checkpoint yet")
    assert choose([Kept("ckpt-a", 1, 1, good=False)]) == NoneWhole("all checkpoints are damaged: 1 of 1")
