"""Answers that nodes owe: each its switch, canaries their health checks at the start, during and at the end of the
hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from platform_core.distribution.rollouts.canaries import RolloutPlan
from platform_core.distribution.rollouts.states import (
    Check,
    CheckEnded,
    Member,
    MemberState,
    Rollout,
    RolloutState,
)

SLOWEST_LOOK = 50_000_000  # bytes per second that every disk reads and every processor hashes
ANSWER_MS = 30_000  # beside the time that the command may take: for the way there and back


def asked(rollout: Rollout, at_ms: int) -> Rollout:
    """All canaries are to be checked, once more where they were before."""
    return replace(rollout, round=rollout.round + 1, asked_ms=at_ms)


def next_check_ms(rollout: Rollout) -> int | None:
    """When the canaries are asked again by the clock; None while one has not answered, and where nobody asks again."""
    plan = rollout.plan
    repeats = rollout.state is RolloutState.HOLDING and plan.health_check and plan.check_every_ms
    if not repeats or rollout.asked_ms is None or unanswered(rollout):
        return None
    return rollout.asked_ms + plan.check_every_ms


def answer_due_ms(rollout: Rollout) -> int | None:
    """Until when every canary should have answered; None while nothing was asked."""
    if rollout.state is not RolloutState.HOLDING or not rollout.plan.health_check or rollout.asked_ms is None:
        return None
    return _due_ms(rollout, rollout.asked_ms)


def switch_due_ms(rollout: Rollout, member: Member, held_ms: int = 0, looks_at_bytes: int = 0) -> int | None:
    """Until when it should have told how its switch went; None where it was not told to, or has. An agent that starts
    again looks at its copy first: `held_ms` is since when it has it, `looks_at_bytes` what it still looks at. Without a
    hook of this version it may still have to wait for that of another one."""
    if member.state is not MemberState.SWITCHING or member.told_ms is None:
        return None
    return _due_ms(rollout, max(member.told_ms, held_ms)) + looks_at_bytes * 1000 // SLOWEST_LOOK


def _due_ms(rollout: Rollout, since_ms: int) -> int:
    return since_ms + rollout.plan.command_seconds * 1000 + ANSWER_MS


def unanswered(rollout: Rollout) -> Sequence[Member]:
    """Canaries that have not answered the newest round."""
    return [
        member for member in rollout.canaries if member.check is None or member.check.round != rollout.round
    ]


def answered(rollout: Rollout, said: CheckEnded) -> Rollout:
    """Once in each round; a word of an earlier one is too late."""
    return replace(rollout, members=tuple(_after(rollout, member, said) for member in rollout.members))


def _after(rollout: Rollout, member: Member, said: CheckEnded) -> Member:
    before = member.check
    asked = (member.node, member.state, rollout.round) == (said.node, MemberState.ACTIVE, said.round)
    if not asked or (before is not None and before.round == said.round):
        return member
    failures = (before.failures if before is not None else 0) + 1 if said.exit_code != 0 else 0
    silent_again = before is not None and before.exit_code is None and said.exit_code is None
    output = before.output if before is not None and silent_again else said.output  # since when is said there
    return replace(member, check=Check(said.round, said.exit_code, output, failures))


def rolls_back(rollout: Rollout) -> str:
    """The sentence why all nodes shall go back; none where they shall not."""
    most = rollout.plan.roll_back_after
    for member in rollout.canaries if most else ():
        if (check := member.check) is not None and check.failures >= most:
            often = f", {check.failures} times in a row" if check.failures > 1 else ""
            return f"{member.node}: {how_it_ended(rollout.plan.health_check, check.exit_code, check.output)}{often}"
    return ""


def how_it_ended(command: str, exit_code: int | None, output: str) -> str:
    """Of a command that failed. Without an exit code nobody knows, and the output says since when."""
    return f"{command}: {output}" if exit_code is None else f"{command} ended with {exit_code}"


def how_the_switch_ended(plan: RolloutPlan, member: Member) -> str:
    return how_it_ended(plan.hook or "the switch", member.exit_code, member.output)


def all_passed(rollout: Rollout) -> bool:
    """The newest round, by every canary."""
    if not rollout.plan.health_check:
        return True
    return all(
        member.check is not None and (member.check.round, member.check.exit_code) == (rollout.round, 0)
        for member in rollout.canaries
    )


def awaits_promotion(rollout: Rollout) -> bool:
    """Nothing is missing but somebody's word."""
    by_hand = rollout.plan.hold_ms is None and not rollout.released
    return rollout.state is RolloutState.HOLDING and by_hand and all_passed(rollout)


def has_failed(rollout: Rollout, member: Member) -> bool:
    """So that nobody else may switch. Where failures are counted one alone says nothing yet."""
    failed_check = member.check is not None and member.check.exit_code != 0
    return member.state is MemberState.FAILED or (failed_check and not rollout.plan.roll_back_after)


def reason(rollout: Rollout) -> str:
    """What stands in the way, with the node's name."""
    hooks = [m for m in rollout.members if m.state is MemberState.FAILED]
    checks = [m for m in rollout.canaries if m.check is not None and m.check.exit_code != 0]
    missing = [m for m in rollout.members if m.state is MemberState.WAITING and m.why]
    if hooks:
        what = f"{hooks[0].node}: {how_the_switch_ended(rollout.plan, hooks[0])}"
    elif checks and (check := checks[0].check) is not None and not rollout.promoted:
        what = f"{checks[0].node}: {how_it_ended(rollout.plan.health_check, check.exit_code, check.output)}"
        if most := rollout.plan.roll_back_after:
            what += f", {check.failures} of {most} in a row that take it back"
    elif missing and (rollout.promoted or rollout.plan.wait_for_all or not rollout.canaries):
        what = f"{missing[0].node} has no copy: {missing[0].why}"
    else:
        return ""
    others = len(hooks or checks or missing) - 1
    return f"{what}; {others} more" if others else what
