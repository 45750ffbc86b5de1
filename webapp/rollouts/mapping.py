"""Between the rows of rollouts and the core's values of them."""

from collections.abc import Iterable
from typing import Any

from platform_core.distribution.rollouts.canaries import RolloutPlan
from platform_core.distribution.rollouts.states import Check, Member, MemberState, Rollout, RolloutState
from webapp.rollouts import models


def rollout_value(row: models.Rollout, members: Iterable[Any]) -> Rollout:
    """`members` are rows, or named tuples of their columns."""
    return Rollout(
        id=row.pk,
        plan=RolloutPlan(
            canaries=row.canaries,
            hold_ms=row.hold_ms,
            health_check=row.health_check,
            check_every_ms=row.check_every_ms,
            roll_back_after=row.roll_back_after,
            hook=row.hook,
            wait_for_all=row.wait_for_all,
            command_seconds=row.command_seconds,
        ),
        members=tuple(_member(member) for member in members),
        state=RolloutState(row.state),
        version=row.version,
        round=row.round,
        asked_ms=row.asked_ms,
        holding_since_ms=row.holding_since_ms,
        stopped=row.stopped,
        released=row.released,
        promoted=row.promoted,
        reason=row.reason,
    )


def _member(row: Any) -> Member:
    check = None
    if row.check_round is not None:
        check = Check(row.check_round, row.check_exit_code, row.check_output, row.check_failures)
    return Member(
        node=row.node_id,
        state=MemberState(row.state),
        canary=row.canary,
        revision=row.revision,
        told_ms=row.told_ms,
        check=check,
        exit_code=row.exit_code,
        output=row.output,
        why=row.why,
    )


def plan_columns(plan: RolloutPlan) -> dict[str, Any]:
    return {
        "canaries": plan.canaries,
        "hold_ms": plan.hold_ms,
        "health_check": plan.health_check,
        "check_every_ms": plan.check_every_ms,
        "roll_back_after": plan.roll_back_after,
        "hook": plan.hook,
        "wait_for_all": plan.wait_for_all,
        "command_seconds": plan.command_seconds,
    }


def rollout_columns(value: Rollout) -> dict[str, Any]:
    return {
        "state": value.state,
        "version": value.version,
        "round": value.round,
        "asked_ms": value.asked_ms,
        "holding_since_ms": value.holding_since_ms,
        "stopped": value.stopped,
        "released": value.released,
        "promoted": value.promoted,
        "reason": value.reason,
    }


def member_columns(value: Member) -> dict[str, Any]:
    check = value.check
    return {
        "state": value.state,
        "canary": value.canary,
        "revision": value.revision,
        "told_ms": value.told_ms,
        "check_round": check.round if check else None,
        "check_exit_code": check.exit_code if check else None,
        "check_output": check.output if check else "",
        "check_failures": check.failures if check else 0,
        "exit_code": value.exit_code,
        "output": value.output,
        "why": value.why,
    }
