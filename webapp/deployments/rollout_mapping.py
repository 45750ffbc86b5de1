"""Between the rows of a rollout and the core's value of it."""

from collections.abc import Iterable
from typing import Any

from platform_core.distribution.canaries import RolloutPlan
from platform_core.distribution.rollout_states import Check, Member, MemberState, Rollout, RolloutState
from webapp.deployments import models


def rollout_value(row: models.Rollout, members: Iterable[Any]) -> Rollout:
    """`members` are rows, or named tuples of their columns."""
    return Rollout(
        id=row.pk,
        plan=RolloutPlan(
            canaries=row.canaries,
            hold_ms=row.hold_ms,
            health_check=row.health_check,
            hook=row.hook,
            wait_for_all=row.wait_for_all,
            command_seconds=row.command_seconds,
        ),
        members=tuple(_member(member) for member in members),
        state=RolloutState(row.state),
        version=row.version,
        round=row.round,
        holding_since_ms=row.holding_since_ms,
        stopped=row.stopped,
        released=row.released,
        promoted=row.promoted,
        reason=row.reason,
    )


def _member(row: Any) -> Member:
    checked = row.check_round is not None and row.check_exit_code is not None
    return Member(
        node=row.node_id,
        state=MemberState(row.state),
        canary=row.canary,
        revision=row.revision,
        check=Check(row.check_round, row.check_exit_code, row.check_output) if checked else None,
        exit_code=row.exit_code,
        output=row.output,
        why=row.why,
    )


def plan_columns(plan: RolloutPlan) -> dict[str, Any]:
    return {
        "canaries": plan.canaries,
        "hold_ms": plan.hold_ms,
        "health_check": plan.health_check,
        "hook": plan.hook,
        "wait_for_all": plan.wait_for_all,
        "command_seconds": plan.command_seconds,
    }


def rollout_columns(value: Rollout) -> dict[str, Any]:
    return {
        "state": value.state,
        "version": value.version,
        "round": value.round,
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
        "check_round": check.round if check else None,
        "check_exit_code": check.exit_code if check else None,
        "check_output": check.output if check else "",
        "exit_code": value.exit_code,
        "output": value.output,
        "why": value.why,
    }
