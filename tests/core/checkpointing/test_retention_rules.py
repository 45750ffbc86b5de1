"""Retention by rule: the last, the best, the hourly ones, the pinned ones, and age."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from platform_core.checkpointing.retention import Kept, look_again_ms, newest_first, reasons, to_delete
from platform_core.jobs.retention_policy import Direction, RetentionPolicy
from platform_core.units import DAY_MS, HOUR_MS

NOW_MS = 1_000 * DAY_MS


def saved(step: int, loss: float | None = None, hours_ago: float = 0, **changes: bool) -> Kept:
    metrics = () if loss is None else (("loss", loss),)
    at_ms = NOW_MS - round(hours_ago * HOUR_MS)
    return replace(Kept(f"ckpt-{step:03}", 1, step, saved_ms=at_ms, metrics=metrics), **changes)


def stays(kept: list[Kept], policy: RetentionPolicy, keep_last: int = 1) -> dict[int, tuple[str, ...]]:
    told = {reason.id: reason.stays for reason in reasons(kept, keep_last, policy, NOW_MS)}
    return {one.step: told[one.id] for one in kept if told[one.id]}


def test_the_best_stay_beside_the_last() -> None:
    kept = [saved(1, 0.9), saved(2, 0.3), saved(3, 0.5), saved(4), saved(5, 0.7)]
    lowest = RetentionPolicy(best=2, metric="loss")
    assert stays(kept, lowest) == {2: ("best",), 3: ("best",), 5: ("last",)}
    assert stays(kept, replace(lowest, direction=Direction.HIGHEST)) == {1: ("best",), 5: ("last", "best")}


def test_one_of_each_stretch_of_hours_stays_the_same_however_many_follow() -> None:
    rule = RetentionPolicy(every_hours=2)
    kept = [saved(step, hours_ago=10 - step) for step in range(1, 10)]
    some = {step for step in stays(kept[:5], rule) if step < 5}
    assert some <= set(stays(kept, rule))
    assert len(stays(kept, rule)) <= 6


def test_old_ones_go_but_never_the_last_or_a_pinned_one() -> None:
    kept = [saved(1, 0.1, 100), saved(2, 0.2, 100, pinned=True, in_use=True), saved(3, 0.3, 90)]
    rule = RetentionPolicy(best=3, metric="loss", max_age_ms=DAY_MS)
    assert stays(kept, rule) == {2: ("pinned", "in use"), 3: ("last",)}
    told = {reason.id: reason.goes for reason in reasons(kept, 1, rule, NOW_MS)}
    assert told["ckpt-001"] == "older than the policy keeps"


KEPT = st.lists(
    st.builds(
        saved, st.integers(0, 200), st.none() | st.floats(0, 10), st.floats(0, 500), pinned=st.booleans(),
        in_use=st.booleans(), good=st.booleans(),
    ),
    max_size=12, unique_by=lambda one: one.id,
)  # fmt: skip
POLICIES = st.builds(
    RetentionPolicy, st.integers(0, 4), st.sampled_from(["", "loss", "other"]), st.sampled_from(list(Direction)),
    st.integers(0, 48), st.sampled_from([0, DAY_MS, 30 * DAY_MS]),
)  # fmt: skip


@given(KEPT, st.integers(0, 5), POLICIES)
def test_the_newest_good_one_the_pinned_and_those_in_use_always_stay(
    kept: list[Kept], keep_last: int, policy: RetentionPolicy
) -> None:
    gone = set(to_delete(kept, keep_last, policy, NOW_MS))
    good = [one.id for one in newest_first(kept) if one.good]
    assert not gone & {one.id for one in kept if one.pinned or one.in_use}
    assert not gone & set(good[: max(1, keep_last)])
    assert gone == {reason.id for reason in reasons(kept, keep_last, policy, NOW_MS) if reason.goes}


@given(KEPT, st.integers(0, 5), POLICIES)
def test_a_rule_never_deletes_more_than_the_last_ones_alone(
    kept: list[Kept], keep_last: int, policy: RetentionPolicy
) -> None:
    assert set(to_delete(kept, keep_last, policy, NOW_MS)) <= set(to_delete(kept, keep_last))


@given(KEPT, POLICIES, st.integers(1, 4), st.integers(0, 100))
def test_nothing_may_go_before_the_time_to_look_again(
    kept: list[Kept], policy: RetentionPolicy, keep_last: int, days_later: int
) -> None:
    gone = set(to_delete(kept, keep_last, policy, NOW_MS))
    left = [one for one in kept if one.id not in gone]
    saved_ms = {one.id: one.saved_ms for one in left}
    told = reasons(left, keep_last, policy, NOW_MS)
    again = look_again_ms(told, saved_ms, policy, NOW_MS)
    later = NOW_MS + days_later * DAY_MS if again is None else again - 1
    assert not to_delete(left, keep_last, policy, later)


def test_what_is_in_use_is_looked_at_again_a_day_later_and_an_old_one_when_it_is_too_old() -> None:
    rule = RetentionPolicy(best=1, metric="loss", max_age_ms=2 * DAY_MS)
    told = reasons([best := saved(1, 0.1, 24), saved(2)], 1, rule, NOW_MS)
    times = {best.id: best.saved_ms, "ckpt-002": NOW_MS}
    assert look_again_ms(told, times, rule, NOW_MS) == NOW_MS + DAY_MS + 1
    used = reasons([saved(1, in_use=True), saved(2)], 1, RetentionPolicy(), NOW_MS)
    assert look_again_ms(used, times, RetentionPolicy(), NOW_MS) == NOW_MS + DAY_MS
    pinned = reasons([saved(1, pinned=True, in_use=True), saved(2)], 1, RetentionPolicy(), NOW_MS)
    assert look_again_ms(pinned, times, RetentionPolicy(), NOW_MS) is None
