"""The state machine of a rollout: canaries, a hold, then the other nodes. One table, then `advance`.

A node switches only to a verified copy, and others only after every canary runs the version and has passed its health
check. A node without an order returns to what was active before (`active_on`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from platform_core.distribution.rollouts.canaries import RolloutPlan
from platform_core.distribution.rollouts.checks import (
    all_passed,
    answered,
    asked,
    has_failed,
    next_check_ms,
    reason,
    rolls_back,
)
from platform_core.distribution.rollouts.states import (
    TOLD,
    CheckEnded,
    Event,
    Member,
    MemberState,
    NodeHolds,
    NodeLacks,
    NodeReturned,
    NodeSwitched,
    PromoteRequested,
    RetryRequested,
    RollBackRequested,
    Rollout,
    RolloutState,
    SwitchFailed,
    TimePassed,
)
from platform_core.errors import IllegalTransition

_S, _M = RolloutState, MemberState
_BEFORE = {_S.DISTRIBUTING, _S.CANARY, _S.HOLDING}
_AFTER = {_S.PROMOTING, _S.ACTIVE}

_TARGETS: dict[tuple[RolloutState, type[Event]], set[RolloutState]] = {
    (_S.DISTRIBUTING, NodeHolds): {_S.DISTRIBUTING, _S.CANARY, _S.PROMOTING},
    (_S.DISTRIBUTING, NodeLacks): {_S.DISTRIBUTING, _S.CANARY},
    (_S.DISTRIBUTING, RetryRequested): {_S.DISTRIBUTING},
    (_S.CANARY, NodeHolds): {_S.CANARY},
    (_S.CANARY, NodeLacks): {_S.CANARY, _S.DISTRIBUTING},
    (_S.CANARY, NodeSwitched): {_S.CANARY, _S.HOLDING, *_AFTER},
    (_S.CANARY, SwitchFailed): {_S.CANARY, _S.FAILED},
    (_S.CANARY, RetryRequested): {_S.CANARY},
    (_S.HOLDING, NodeHolds): {_S.HOLDING},
    (_S.HOLDING, NodeLacks): _BEFORE,
    (_S.HOLDING, CheckEnded): {_S.HOLDING, _S.FAILED, _S.ROLLED_BACK, *_AFTER},
    (_S.HOLDING, TimePassed): {_S.HOLDING, *_AFTER},
    (_S.HOLDING, PromoteRequested): {_S.HOLDING, *_AFTER},
    (_S.HOLDING, RetryRequested): {_S.HOLDING},
    (_S.PROMOTING, NodeHolds): {_S.PROMOTING},
    (_S.PROMOTING, NodeLacks): {*_AFTER, _S.FAILED},
    (_S.PROMOTING, NodeSwitched): _AFTER,
    (_S.PROMOTING, SwitchFailed): {*_AFTER, _S.FAILED},
    (_S.PROMOTING, RetryRequested): {_S.PROMOTING},
    **{(_S.ACTIVE, event): {_S.ACTIVE} for event in (NodeHolds, NodeLacks, NodeSwitched, SwitchFailed)},
    (_S.ACTIVE, RetryRequested): {_S.ACTIVE},
    **{(_S.FAILED, event): {_S.FAILED, _S.PROMOTING} for event in (NodeHolds, NodeLacks)},
    **{(_S.FAILED, event): {_S.FAILED} for event in (NodeSwitched, SwitchFailed, CheckEnded)},
    (_S.FAILED, RetryRequested): {*_BEFORE, _S.PROMOTING, _S.FAILED},
    **{(_S.ROLLED_BACK, event): {_S.ROLLED_BACK} for event in (NodeHolds, NodeLacks, NodeReturned)},
    **{(state, RollBackRequested): {_S.ROLLED_BACK} for state in _S},
}
TRANSITIONS = {pair: frozenset(targets) for pair, targets in _TARGETS.items()}

UNSETTLED = frozenset({*_BEFORE, _S.PROMOTING, _S.FAILED})


@dataclass(frozen=True, slots=True)
class Step:
    rollout: Rollout
    tell: tuple[str, ...] = ()  # nodes that are wanted to do something else than before


def begin(rollout_id: str, plan: RolloutPlan, order: Iterable[str]) -> Rollout:
    """A new rollout of these nodes, in the order of `canaries.spread`."""
    fresh = Rollout(rollout_id, plan, tuple(Member(node) for node in order), released=plan.hold_ms == 0)
    return _settled(fresh, 0)


def order_for(rollout: Rollout, member: Member) -> tuple[int, int]:
    """The revision of the switch order and the round of the health check; 0 if there is none."""
    asked = member.canary and rollout.holding_since_ms is not None and bool(rollout.plan.health_check)
    return (member.revision, rollout.round if asked else 0) if member.told else (0, 0)


def active_on(newest_first: Iterable[tuple[str, MemberState]]) -> list[str]:
    """What a node should run by the rollouts of one model: the newest first, then the ones to return to."""
    return [rollout for rollout, state in newest_first if state in TOLD]


def advance(rollout: Rollout, event: Event) -> Step:
    """The rollout after the event; IllegalTransition for a pair or an outcome outside the table."""
    allowed = TRANSITIONS.get((rollout.state, type(event)))
    if allowed is None:
        raise _illegal(rollout, event, "that is not possible in this state")
    after = _AFTER_EVENT[type(event)](rollout, event)
    if after == rollout:
        return Step(rollout)
    after = _settled(after, event.at_ms)
    if after.state not in allowed:
        raise _illegal(rollout, event, f"it would lead to {after.state}")
    pairs = zip(rollout.members, after.members, strict=True)
    nodes_to_tell = tuple(new.node for old, new in pairs if order_for(rollout, old) != order_for(after, new))
    return Step(replace(after, version=rollout.version + 1), nodes_to_tell)


def hold_ends_ms(rollout: Rollout) -> int | None:
    """When the hold of the canaries ends; None if no clock ends it."""
    hold, since = rollout.plan.hold_ms, rollout.holding_since_ms
    waits = rollout.state is _S.HOLDING and not rollout.released
    return since + hold if waits and since is not None and hold is not None else None


# -- what an event does to its member, or to the rollout


def _holds(rollout: Rollout, event: NodeHolds) -> Rollout:
    return _with(rollout, event.node, {_M.WAITING}, state=_M.READY, why="")


def _lacks(rollout: Rollout, event: NodeLacks) -> Rollout:
    states = set(_M) - {_M.RETURNING, _M.RETURNED}
    fresh: dict[str, Any] = {"exit_code": None, "output": "", "check": None}
    return _with(rollout, event.node, states, state=_M.WAITING, why=event.why, **fresh)


def _switched(rollout: Rollout, event: NodeSwitched) -> Rollout:
    return _with(rollout, event.node, {_M.SWITCHING}, event.revision, state=_M.ACTIVE)


def _not_switched(rollout: Rollout, event: SwitchFailed) -> Rollout:
    outcome: dict[str, Any] = {"exit_code": event.exit_code, "output": event.output}
    return _with(rollout, event.node, {_M.SWITCHING}, event.revision, state=_M.FAILED, **outcome)


def _checked(rollout: Rollout, event: CheckEnded) -> Rollout:
    rollout = answered(rollout, event)
    why = rolls_back(rollout) if rollout.state is _S.HOLDING else ""
    return _back(rollout, why) if why else rollout


def _returned(rollout: Rollout, event: NodeReturned) -> Rollout:
    outcome: dict[str, Any] = {"exit_code": event.exit_code or None, "output": event.output}
    return _with(rollout, event.node, {_M.RETURNING}, state=_M.RETURNED, **outcome)


def _time_passed(rollout: Rollout, event: TimePassed) -> Rollout:
    ends, next_check = hold_ends_ms(rollout), next_check_ms(rollout)
    if ends is not None and event.at_ms >= ends:
        return _released(rollout, event.at_ms)
    return asked(rollout, event.at_ms) if next_check is not None and event.at_ms >= next_check else rollout


def _promote(rollout: Rollout, event: PromoteRequested) -> Rollout:
    return rollout if rollout.released else _released(rollout, event.at_ms)


def _released(rollout: Rollout, at_ms: int) -> Rollout:
    """End the hold. A check that passed a while ago is repeated; one under way decides."""
    again = bool(rollout.plan.health_check) and all_passed(rollout)
    return replace(asked(rollout, at_ms) if again else rollout, released=True)


def _retried(rollout: Rollout, event: RetryRequested) -> Rollout:
    members = tuple(
        replace(member, state=_M.READY, exit_code=None, output="", check=None)
        if member.state is _M.FAILED
        else member
        for member in rollout.members
    )
    if not rollout.stopped:
        return replace(rollout, members=members)
    return replace(
        rollout, members=tuple(replace(member, check=None) for member in members), stopped=False,
        released=rollout.plan.hold_ms == 0, holding_since_ms=None,
    )  # fmt: skip


def _back(rollout: Rollout, why: str = "") -> Rollout:
    if rollout.state is _S.ROLLED_BACK:
        return rollout
    members = tuple(replace(m, state=_M.RETURNING) if m.told else m for m in rollout.members)
    return replace(rollout, members=members, state=_S.ROLLED_BACK, reason=why)


_AFTER_EVENT: dict[type[Event], Callable[[Rollout, Any], Rollout]] = {
    NodeHolds: _holds,
    NodeLacks: _lacks,
    NodeSwitched: _switched,
    SwitchFailed: _not_switched,
    CheckEnded: _checked,
    NodeReturned: _returned,
    TimePassed: _time_passed,
    PromoteRequested: _promote,
    RetryRequested: _retried,
    RollBackRequested: lambda rollout, event: _back(rollout),
}


def _with(
    rollout: Rollout, node: str, states: set[MemberState], revision: int | None = None, **changes: Any
) -> Rollout:
    """Update the member, if it is in one of these states and the event belongs to its newest order."""
    return replace(
        rollout,
        members=tuple(
            replace(member, **changes)
            if member.node == node and member.state in states and revision in (None, member.revision)
            else member
            for member in rollout.members
        ),
    )


# -- what follows from it


def _settled(rollout: Rollout, at_ms: int) -> Rollout:
    """Order the nodes to switch that may, and derive the state from the members."""
    if rollout.state is _S.ROLLED_BACK:
        return rollout
    if not (rollout.promoted or rollout.stopped):
        rollout = _before_the_rest(rollout, at_ms)
    if rollout.promoted:
        rollout = _tell(rollout, rollout.members, at_ms)
    state = _phase(rollout)
    return replace(rollout, state=state, reason=reason(rollout))


def _before_the_rest(rollout: Rollout, at_ms: int) -> Rollout:
    if any(has_failed(rollout, member) for member in rollout.canaries):
        return replace(rollout, stopped=True)
    if not any(member.told for member in rollout.canaries):
        rollout = _choose_canaries(rollout)
    canaries = rollout.canaries
    all_hold = all(member.state is not _M.WAITING for member in rollout.members)
    if not rollout.plan.canaries:
        return replace(rollout, promoted=all_hold or not rollout.plan.wait_for_all)
    begun = any(member.told for member in canaries)
    gate = all_hold or not rollout.plan.wait_for_all
    if begun or (gate and canaries and all(member.state is _M.READY for member in canaries)):
        rollout = _tell(rollout, canaries, at_ms)
    if not (canaries and all(member.state is _M.ACTIVE for member in rollout.canaries)):
        return replace(rollout, holding_since_ms=None, released=rollout.plan.hold_ms == 0)
    if rollout.holding_since_ms is None:
        rollout = replace(asked(rollout, at_ms), holding_since_ms=at_ms)
    return replace(rollout, promoted=rollout.released and all_passed(rollout))


def _choose_canaries(rollout: Rollout) -> Rollout:
    """The chosen canaries, each replaced by the next node if it cannot have a copy."""
    able = [member.node for member in (*rollout.canaries, *rollout.members) if not member.why]
    chosen = set(list(dict.fromkeys(able))[: rollout.plan.canaries])
    members = tuple(replace(member, canary=member.node in chosen) for member in rollout.members)
    return replace(rollout, members=members)


def _tell(rollout: Rollout, members: Iterable[Member], at_ms: int) -> Rollout:
    ready = {member.node for member in members if member.state is _M.READY}
    return replace(
        rollout,
        members=tuple(
            replace(m, state=_M.SWITCHING, revision=m.revision + 1, told_ms=at_ms) if m.node in ready else m
            for m in rollout.members
        ),
    )


def _phase(rollout: Rollout) -> RolloutState:
    states = {member.state for member in rollout.members}
    if rollout.promoted:
        coming = any(m.state is _M.WAITING and not m.why for m in rollout.members)
        if rollout.state is _S.ACTIVE:
            return _S.ACTIVE  # late nodes catch up, the outcome is the same
        if coming or _M.SWITCHING in states:
            return _S.PROMOTING
        return _S.ACTIVE if _M.ACTIVE in states else _S.FAILED
    if rollout.stopped:
        return _S.FAILED
    if rollout.holding_since_ms is not None:
        return _S.HOLDING
    return _S.CANARY if any(member.told for member in rollout.canaries) else _S.DISTRIBUTING


def _illegal(rollout: Rollout, event: Event, why: str) -> IllegalTransition:
    name = type(event).__name__
    sentence = f"The rollout of {rollout.id} is {rollout.state}; {name} by {event.actor}: {why}"
    return IllegalTransition(f"rollout of {rollout.id}", rollout.state, name, sentence)
