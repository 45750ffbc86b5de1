"""The health checks of canaries: as soon as they run the version, again while they are held, once more at the end."""

from __future__ import annotations

from dataclasses import replace

from platform_core.distribution.rollout_states import (
    Check,
    CheckEnded,
    Member,
    MemberState,
    Rollout,
    RolloutState,
)


def asked(rollout: Rollout, at_ms: int) -> Rollout:
    """All canaries are to be checked, once more where they were before."""
    return replace(rollout, round=rollout.round + 1, asked_ms=at_ms)


def next_check_ms(rollout: Rollout) -> int | None:
    """When the canaries are asked again by the clock; None while one has not answered, and where nobody asks again."""
    plan = rollout.plan
    repeats = rollout.state is RolloutState.HOLDING and plan.health_check and plan.check_every_ms
    if not repeats or rollout.asked_ms is None or not _all_answered(rollout):
        return None
    return rollout.asked_ms + plan.check_every_ms


def answered(rollout: Rollout, said: CheckEnded) -> Rollout:
    """Once in each round; a word of an earlier one is too late."""
    return replace(rollout, members=tuple(_after(rollout, member, said) for member in rollout.members))


def _after(rollout: Rollout, member: Member, said: CheckEnded) -> Member:
    before = member.check
    asked = (member.node, member.state, rollout.round) == (said.node, MemberState.ACTIVE, said.round)
    if not asked or (before is not None and before.round == said.round):
        return member
    failures = (before.failures if before is not None else 0) + 1 if said.exit_code else 0
    return replace(member, check=Check(said.round, said.exit_code, said.output, failures))


def rolls_back(rollout: Rollout) -> str:
    """The sentence why all nodes shall go back; none where they shall not."""
    most = rollout.plan.roll_back_after
    for member in rollout.canaries if most else ():
        if (check := member.check) is not None and check.failures >= most:
            often = f", {check.failures} times in a row" if check.failures > 1 else ""
            return f"{member.node}: {rollout.plan.health_check} ended with {check.exit_code}{often}"
    return ""


def all_passed(rollout: Rollout) -> bool:
    """The newest round, by every canary."""
    if not rollout.plan.health_check:
        return True
    return all(
        member.check is not None and (member.check.round, member.check.exit_code) == (rollout.round, 0)
        for member in rollout.canaries
    )


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
        what = f"{hooks[0].node}: {rollout.plan.hook or 'the switch'} ended with {hooks[0].exit_code}"
    elif checks and checks[0].check is not None and not rollout.promoted:
        what = f"{checks[0].node}: {rollout.plan.health_check} ended with {checks[0].check.exit_code}"
        if most := rollout.plan.roll_back_after:
            what += f", {checks[0].check.failures} of {most} in a row that take it back"
    elif missing and (rollout.promoted or rollout.plan.wait_for_all or not rollout.canaries):
        what = f"{missing[0].node} has no copy: {missing[0].why}"
    else:
        return ""
    others = len(hooks or checks or missing) - 1
    return f"{what}; {others} more" if others else what


def _all_answered(rollout: Rollout) -> bool:
    return all(
        member.check is not None and member.check.round == rollout.round for member in rollout.canaries
    )
