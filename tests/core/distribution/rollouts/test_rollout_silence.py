"""Who never answers has failed: its switch, or its health check."""

from __future__ import annotations

from dataclasses import replace

from platform_core.distribution.rollouts import checks as c
from platform_core.distribution.rollouts import states as s
from platform_core.distribution.rollouts.canaries import RolloutPlan
from tests.core.distribution.acting import (
    AGAIN,
    CHECKED,
    NODES,
    S,
    after,
    all_hold,
    checked,
    fresh,
    holds,
    switched,
)


def test_a_canary_that_gives_no_answer_has_failed_its_check() -> None:
    held = after(fresh(CHECKED), *map(holds, NODES), switched("n0"))
    assert c.answer_due_ms(held) == 2 + CHECKED.command_seconds * 1000 + c.ANSWER_MS
    assert [member.node for member in c.unanswered(held)] == ["n0"]
    silent = s.CheckEnded(99_000, "system", "n0", 1, None, "no answer since 12:00:00 UTC")
    stopped = after(held, silent)
    assert (stopped.state, stopped.reason) == (S.FAILED, "n0: check-model: no answer since 12:00:00 UTC")
    assert after(stopped, checked("n0")) == stopped, "the answer to this round comes too late"
    assert after(stopped, AGAIN, checked("n0", round=2)).state is S.HOLDING


def test_where_failures_are_counted_silence_counts_and_is_told_since_it_began() -> None:
    plan = replace(CHECKED, check_every_ms=20_000, roll_back_after=2)
    once = after(
        fresh(plan),
        *map(holds, NODES),
        switched("n0"),
        s.CheckEnded(99_000, "system", "n0", 1, None, "since noon"),
    )
    assert (once.state, once.reason) == (
        S.HOLDING,
        "n0: check-model: since noon, 1 of 2 in a row that take it back",
    )
    again = after(once, s.TimePassed(100_000, "system"))
    assert (again.round, after(again, checked("n0", round=2)).reason) == (2, "")
    twice = after(again, s.CheckEnded(200_000, "system", "n0", 2, None, "since one"))
    assert (twice.state, twice.reason) == (S.ROLLED_BACK, "n0: check-model: since noon, 2 times in a row")


def test_a_node_that_never_tells_how_its_switch_went_has_failed_it() -> None:
    rollout = all_hold(CHECKED)
    due = 1 + CHECKED.command_seconds * 1000 + c.ANSWER_MS
    assert [c.switch_due_ms(rollout, member) for member in rollout.members] == [due, None, None]
    looked_again = c.switch_due_ms(rollout, rollout.members[0], held_ms=50_000)
    assert looked_again == due + 49_999, "an agent that starts again looks at what it holds first"
    looks = c.switch_due_ms(rollout, rollout.members[0], looks_at_bytes=500 * 10**9)
    assert looks == due + 10_000_000, (
        "as long as the slowest disk would take for half a terabyte, and no longer"
    )
    silent = s.SwitchFailed(due, "system", "n0", 1, None, "no answer since 12:00:00 UTC")
    stopped = after(rollout, silent)
    assert (stopped.state, stopped.reason) == (S.FAILED, "n0: reload: no answer since 12:00:00 UTC")
    assert after(stopped, switched("n0")) == stopped, "too late: it has been told to go back"
    again = after(stopped, s.RetryRequested(due + 5, "user:a"))
    assert c.switch_due_ms(again, again.members[0]) == 2 * due + 4, "it has all its time once more"
    assert after(again, silent) == again, "a word about the first try"
    running = after(again, switched("n0", 2))
    assert (running.state, c.switch_due_ms(running, running.members[0])) == (S.HOLDING, None)


def test_after_the_promotion_one_that_never_tells_does_not_hold_up_the_rollout() -> None:
    rollout = after(all_hold(RolloutPlan()), switched("n0"), switched("n2"))
    assert rollout.state is S.PROMOTING
    rollout = after(rollout, s.SwitchFailed(99_000, "system", "n1", 1, None, "no answer since noon"))
    assert (rollout.state, rollout.reason) == (S.ACTIVE, "n1: the switch: no answer since noon")
