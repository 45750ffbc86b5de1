"""Between the rows of deployments and rollouts and the core's values of them."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from platform_core.distribution.deployments.deployment import Deployment, DeploymentState, Worker, WorkerState
from platform_core.distribution.planning.estimate import Estimate
from platform_core.distribution.rollouts.canaries import RolloutPlan
from platform_core.distribution.rollouts.states import Check, Member, MemberState, Rollout, RolloutState
from webapp.deployments import models


def deployment_value(row: models.Deployment, workers: Iterable[models.Worker]) -> Deployment:
    return Deployment(
        id=row.id,
        state=DeploymentState(row.state),
        version=row.version,
        workers=tuple(worker_value(worker) for worker in workers),
        created_ms=row.created_ms,
        started_ms=row.started_ms,
        finished_ms=row.finished_ms,
        reason=row.reason,
    )


def worker_value(row: models.Worker) -> Worker:
    return Worker(
        node=row.node_id,
        position=row.position,
        state=WorkerState(row.state),
        bytes_total=row.bytes_total,
        bytes_done=row.bytes_done,
        verifying=row.verifying,
        from_peer=row.from_peer,
        error_code=row.error_code,
        error=row.error,
        started_ms=row.started_ms,
        finished_ms=row.finished_ms,
    )


def deployment_columns(value: Deployment) -> dict[str, Any]:
    return {
        "state": value.state,
        "version": value.version,
        "started_ms": value.started_ms,
        "finished_ms": value.finished_ms,
        "reason": value.reason,
        "node_states": Counter(worker.state for worker in value.workers),
    }


def worker_columns(value: Worker) -> dict[str, Any]:
    return {
        "state": value.state,
        "bytes_done": value.bytes_done,
        "verifying": value.verifying,
        "from_peer": value.from_peer,
        "error_code": value.error_code,
        "error": value.error,
        "started_ms": value.started_ms,
        "finished_ms": value.finished_ms,
    }


def estimate_document(value: Estimate) -> dict[str, Any]:
    return asdict(value)


def estimate_value(document: dict[str, Any]) -> Estimate:
    return Estimate(**document)


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
