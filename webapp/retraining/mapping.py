"""Rows of policies and cycles, and the values of the core."""

from __future__ import annotations

from platform_core.retraining import policy as policies
from platform_core.retraining.cycle import Cycle as CycleValue
from platform_core.retraining.cycle import CycleState
from platform_core.retraining.policy import RetrainingPolicy
from platform_core.retraining.triggers import Watched
from webapp.retraining.models import Cycle, Policy


def policy_of(row: Policy | Cycle) -> RetrainingPolicy:
    return policies.load(row.spec)


def watched_of(row: Policy) -> Watched:
    return Watched(**row.watched)


def cycle_of(row: Cycle) -> CycleValue:
    policy = policy_of(row)
    return CycleValue(
        row.id, CycleState(row.state), policy.approve_canary, bool(policy.endpoint), row.job_id or "",
        row.version_id or "", row.reason, tuple(row.approved_by),
    )  # fmt: skip
