"""A rollout of three nodes, and what may happen to it."""

from __future__ import annotations

from platform_core.distribution.rollouts import rollout as r
from platform_core.distribution.rollouts import states as s
from platform_core.distribution.rollouts.canaries import RolloutPlan

S, M = s.RolloutState, s.MemberState
NODES = ("n0", "n1", "n2")
CHECKED = RolloutPlan(canaries=1, hold_ms=None, health_check="check-model", hook="reload")


def after(rollout: s.Rollout, *events: s.Event) -> s.Rollout:
    for event in events:
        rollout = r.advance(rollout, event).rollout
    return rollout


def holds(node: str) -> s.Event:
    return s.NodeHolds(1, "system", node)


def lacks(node: str, why: str = "") -> s.Event:
    return s.NodeLacks(1, "system", node, why)


def switched(node: str, revision: int = 1) -> s.Event:
    return s.NodeSwitched(2, "system", node, revision)


def not_switched(node: str, revision: int = 1) -> s.Event:
    return s.SwitchFailed(2, "system", node, revision, 3, "no such service")


def checked(node: str, exit_code: int | None = 0, round: int = 1) -> s.Event:
    return s.CheckEnded(3, "system", node, round, exit_code, "said so")


PROMOTE, AGAIN, BACK = (
    s.PromoteRequested(9, "user:a"),
    s.RetryRequested(9, "user:a"),
    s.RollBackRequested(9, "user:a"),
)


def states(rollout: s.Rollout) -> dict[str, str]:
    return {member.node: member.state.value for member in rollout.members}


def fresh(plan: RolloutPlan, nodes: tuple[str, ...] = NODES) -> s.Rollout:
    return r.begin("dep-1", plan, nodes)


def all_hold(plan: RolloutPlan) -> s.Rollout:
    return after(fresh(plan), *(holds(node) for node in NODES))
