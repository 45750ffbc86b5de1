"""How often a job saves beside how often it should: told only as far as the numbers carry."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.checkpointing.habit import LONG_WATCHED_MS, Habit, Losses, Review, Save, habit, review
from platform_core.checkpointing.interval import advise, waste
from platform_core.units import DAY_MS, HOUR_MS, MINUTE_MS

WATCHED = Losses(lost=10, node_ms=1000 * DAY_MS)


def saves(*, every_ms: int, save_ms: int | None, count: int = 6, attempt: int = 1) -> list[Save]:
    """`every_ms` from the end of one to the end of the next."""
    ends = [attempt * DAY_MS + number * every_ms for number in range(1, count + 1)]
    return [Save(attempt, None if save_ms is None else end - save_ms, end) for end in ends]


def reviewed(known: list[Save], losses: Losses = WATCHED, nodes: int = 1, restart_ms: int = 0) -> Review:
    return review(known, nodes, "a100", losses, restart_ms)


def test_its_habit_is_what_is_usual_within_its_attempts():
    first = saves(every_ms=10 * MINUTE_MS, save_ms=MINUTE_MS)
    hasty = Save(1, first[-1].saved_ms + 500, first[-1].saved_ms + 1_000)  # because it was told to stop
    again = saves(every_ms=10 * MINUTE_MS, save_ms=MINUTE_MS, attempt=9)
    assert habit([*again, hasty, *first]) == Habit(13, MINUTE_MS, 9 * MINUTE_MS)
    assert habit([]) == Habit(0, None, None)
    assert habit([Save(1, 5, 9), Save(2, 105, 109)]) == Habit(2, 4, None), "a restart lies between them"


def test_who_saves_too_often_is_told_what_that_costs():
    told = reviewed(saves(every_ms=2 * MINUTE_MS, save_ms=MINUTE_MS), restart_ms=MINUTE_MS)
    assert told.now is not None
    assert told.advised is not None
    assert told.now.saving == pytest.approx(0.5)
    assert told.gang_mtbf_ms == 100 * DAY_MS
    assert told.advised.interval_ms == advise(MINUTE_MS, 100 * DAY_MS).interval_ms
    assert told.sentence == (
        "A save every 8 h 55 min instead of every 1 min would give it back 49.6 % of its time."
    )


def test_who_saves_too_seldom_is_told_what_is_lost():
    told = reviewed(saves(every_ms=12 * HOUR_MS, save_ms=MINUTE_MS), nodes=1000)
    assert told.now is not None
    assert told.now.lost is not None
    assert told.advised is not None
    assert told.now.lost > 0.9
    assert "instead of every 11 h 59 min would give it back" in told.sentence


def test_who_saves_about_as_often_as_is_best_is_not_told_to_change():
    best_ms = advise(MINUTE_MS, 100 * DAY_MS).interval_ms
    told = reviewed(saves(every_ms=best_ms + MINUTE_MS + 20 * MINUTE_MS, save_ms=MINUTE_MS))
    assert "hardly better" in told.sentence
    assert "only" not in told.sentence


@pytest.mark.parametrize(("lost", "words"), [(1, "one lost node"), (2, "2 lost nodes")])
def test_advice_that_rests_on_few_losses_says_so(lost: int, words: str):
    told = reviewed(saves(every_ms=10 * MINUTE_MS, save_ms=MINUTE_MS), Losses(lost, 200 * DAY_MS))
    assert told.sentence.endswith(f" This rests on {words} only.")


def test_without_a_loss_in_a_short_time_nothing_is_advised():
    told = reviewed(saves(every_ms=10 * MINUTE_MS, save_ms=MINUTE_MS), Losses(0, 3 * DAY_MS))
    assert told.advised is None
    assert told.gang_mtbf_ms is None
    assert told.now is not None
    assert told.now.lost is None
    assert told.now.saving == pytest.approx(0.1)
    assert told.sentence.startswith("No node of a100 was lost in 3.0 node-days: too short a time to tell")


def test_without_a_loss_in_a_long_time_only_too_often_can_be_told():
    losses = Losses(0, 400 * DAY_MS)
    often = reviewed(saves(every_ms=10 * MINUTE_MS, save_ms=MINUTE_MS), losses)
    assert often.floor
    assert often.advised is not None
    assert often.now is not None
    assert often.now.lost is None
    assert often.advised.interval_ms == advise(MINUTE_MS, 400 * DAY_MS).interval_ms
    assert "it saves every 9 min, more often than is worth it." in often.sentence
    for every_ms in (3 * DAY_MS, often.advised.interval_ms * 9 // 10):
        told = reviewed(saves(every_ms=every_ms, save_ms=MINUTE_MS), losses)
        assert told.sentence.endswith("so more often than that is not worth it.")


def test_where_no_save_told_when_it_began_nothing_is_made_up():
    told = reviewed(saves(every_ms=10 * MINUTE_MS, save_ms=None))
    assert (told.now, told.advised) == (None, None)
    assert told.sentence == "How long a save takes is not known yet: no save has told when it began."


def test_after_one_save_the_advice_stands_alone():
    told = reviewed(saves(every_ms=10 * MINUTE_MS, save_ms=MINUTE_MS, count=1))
    assert told.now is None
    assert told.advised is not None
    assert "is seen from the second save on" in told.sentence


@given(
    every_ms=st.integers(2_000, DAY_MS), save_ms=st.integers(1, 1_000), lost=st.integers(0, 500),
    node_ms=st.integers(0, 10_000 * DAY_MS), nodes=st.integers(1, 2_000), restart_ms=st.integers(0, HOUR_MS),
)  # fmt: skip
def test_whatever_is_told_is_a_part_of_the_time_and_the_advice_no_worse_than_the_habit(
    every_ms: int, save_ms: int, lost: int, node_ms: int, nodes: int, restart_ms: int
):
    known = saves(every_ms=every_ms, save_ms=save_ms)
    told = reviewed(known, Losses(lost, node_ms), nodes, restart_ms)
    for cost in (told.now, told.advised):
        if cost is not None:
            assert 0 <= cost.saving <= cost.total
            assert cost.lost is None or 0 <= cost.lost <= 1
    assert (told.advised is None) == (lost == 0 and node_ms < LONG_WATCHED_MS)
    if lost and told.now and told.advised and told.gang_mtbf_ms:
        numbers = (save_ms, told.gang_mtbf_ms, restart_ms)
        assert told.now.total == pytest.approx(max(told.now.saving, waste(every_ms - save_ms, *numbers)))
        assert told.gang_mtbf_ms < 20 * save_ms or told.advised.total <= told.now.total + 0.02


@given(nodes=st.integers(1, 500))
def test_a_larger_gang_saves_no_less_often(nodes: int):
    known = saves(every_ms=10 * MINUTE_MS, save_ms=1_000)
    small, large = reviewed(known, nodes=nodes).advised, reviewed(known, nodes=nodes + 1).advised
    assert small is not None
    assert large is not None
    assert large.interval_ms <= small.interval_ms
