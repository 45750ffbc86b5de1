"""The life of a model version, from its registration to production: one table of the moves that are possible."""

from __future__ import annotations

from enum import StrEnum

from platform_core.errors import IllegalTransition


class Stage(StrEnum):
    CANDIDATE = "candidate"
    VALIDATED = "validated"
    STAGING = "staging"
    PRODUCTION = "production"
    ARCHIVED = "archived"
    RECALLED = "recalled"


_LIVING = frozenset({Stage.CANDIDATE, Stage.VALIDATED, Stage.STAGING, Stage.PRODUCTION, Stage.ARCHIVED})

# A recalled version goes nowhere until somebody takes the recall back; it is then unproven again.
MOVES: dict[Stage, frozenset[Stage]] = {
    **{stage: (_LIVING - {stage}) | {Stage.RECALLED} for stage in _LIVING},
    Stage.RECALLED: frozenset({Stage.CANDIDATE}),
}

# A version enters these only through its gate.
GATED = frozenset({Stage.VALIDATED, Stage.STAGING, Stage.PRODUCTION})

DESCRIPTION: dict[Stage, str] = {
    Stage.CANDIDATE: "Registered; nothing is proven yet. Its evaluations begin by themselves.",
    Stage.VALIDATED: "It passed the gate of its model.",
    Stage.STAGING: "It passed the gate, and is tried before production.",
    Stage.PRODUCTION: "It passed the gate and has the approvals. New versions are compared with it.",
    Stage.ARCHIVED: "Out of use; it may come back through the gate.",
    Stage.RECALLED: "Somebody marked it as bad. It cannot be deployed or promoted.",
}


def move(version: str, stage: Stage, target: Stage) -> Stage:
    """Returns the new stage; staying where it is, is no move. Raises IllegalTransition."""
    if target is stage:
        return stage
    if target not in MOVES[stage]:
        raise IllegalTransition(version, stage.value, f"a move to {target.value}")
    return target


def needs_gate(stage: Stage, target: Stage) -> bool:
    """Whether the move is a promotion: from production to staging nothing has to be proven again."""
    return target in GATED and not (stage in GATED and _RANK[target] <= _RANK[stage])


_RANK = {Stage.VALIDATED: 1, Stage.STAGING: 2, Stage.PRODUCTION: 3}
