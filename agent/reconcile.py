"""Wanted and observed in, actions out. Pure: no clock, no I/O, the same answer for the same question.

| wanted  | observed            | action                                              |
|---------|---------------------|-----------------------------------------------------|
| run     | absent              | StartAttempt                                        |
| run     | anything            | none: an attempt is started once, whatever came of it |
| stop    | absent              | StopAttempt: it is reported as ended, so the server hears it |
| stop    | preparing, running  | StopAttempt, unless it is stopping already          |
| absent  | preparing, running  | StopAttempt, unless it is stopping already          |
| absent  | exited              | ForgetAttempt                                       |
"""

from __future__ import annotations

from dataclasses import dataclass

from platform_core.jobs.job import MemberPhase
from platform_core.node.observed import AttemptObserved, DeploymentObserved, Observed, TransferState
from platform_core.node.wanted import AttemptWanted, DeploymentWanted, Wanted, WantedAction

DEFAULT_GRACE_SECONDS = 30  # for an attempt that the server no longer mentions


@dataclass(frozen=True, slots=True)
class StartAttempt:
    """Prepare the work folder, then start its processes."""

    wanted: AttemptWanted


@dataclass(frozen=True, slots=True)
class StopAttempt:
    attempt_id: str
    grace_seconds: int


@dataclass(frozen=True, slots=True)
class ForgetAttempt:
    """Delete what is left of an ended attempt that the server has taken note of."""

    attempt_id: str


@dataclass(frozen=True, slots=True)
class ReceiveDeployment:
    """Begin to receive, or go on with other sources; what was verified is kept."""

    wanted: DeploymentWanted


@dataclass(frozen=True, slots=True)
class DropDeployment:
    deployment_id: str


Action = StartAttempt | StopAttempt | ForgetAttempt | ReceiveDeployment | DropDeployment


def reconcile(wanted: Wanted, observed: Observed) -> tuple[Action, ...]:
    """The actions to take now. Ends (stop, forget, drop) come before beginnings, for which they free resources."""
    attempts = {attempt.attempt_id: attempt for attempt in observed.attempts}
    deployments = {deployment.deployment_id: deployment for deployment in observed.deployments}
    actions: list[Action] = []
    actions += _unwanted_attempts(wanted, observed)
    actions += _unwanted_deployments(wanted, observed)
    for attempt in wanted.attempts:
        actions += _for_attempt(attempt, attempts.get(attempt.attempt_id))
    for deployment in wanted.deployments:
        actions += _for_deployment(deployment, deployments.get(deployment.deployment_id))
    return tuple(sorted(actions, key=_order))


def _for_attempt(wanted: AttemptWanted, here: AttemptObserved | None) -> list[Action]:
    if wanted.action is WantedAction.STOP:
        ended = here is not None and (here.stopping or here.phase is MemberPhase.EXITED)
        return [] if ended else [StopAttempt(wanted.attempt_id, wanted.grace_seconds)]
    if here is None and wanted.launch is not None:
        return [StartAttempt(wanted)]
    return []


def _unwanted_attempts(wanted: Wanted, observed: Observed) -> list[Action]:
    known = {attempt.attempt_id for attempt in wanted.attempts}
    actions: list[Action] = []
    for attempt in observed.attempts:
        if attempt.attempt_id in known:
            continue
        if attempt.phase is MemberPhase.EXITED:
            actions.append(ForgetAttempt(attempt.attempt_id))
        elif not attempt.stopping:
            actions.append(StopAttempt(attempt.attempt_id, DEFAULT_GRACE_SECONDS))
    return actions


def _for_deployment(wanted: DeploymentWanted, here: DeploymentObserved | None) -> list[Action]:
    if here is None or here.acting_on is None:
        return [ReceiveDeployment(wanted)]
    if here.state is TransferState.COMPLETE:
        before = here.acting_on
        same = (wanted.pinned, wanted.preheat, wanted.share) == (before.pinned, before.preheat, before.share)
        return [] if same else [ReceiveDeployment(wanted)]
    if here.state is TransferState.EVICTED and here.acting_on.retry == wanted.retry:
        return []  # the server has yet to hear of it
    if here.acting_on == wanted:
        return []
    return [ReceiveDeployment(wanted)]


def _unwanted_deployments(wanted: Wanted, observed: Observed) -> list[Action]:
    known = {deployment.deployment_id for deployment in wanted.deployments}
    return [
        DropDeployment(deployment.deployment_id)
        for deployment in observed.deployments
        if deployment.deployment_id not in known
    ]


def _order(action: Action) -> tuple[int, str]:
    match action:
        case StopAttempt():
            return 0, action.attempt_id
        case ForgetAttempt():
            return 1, action.attempt_id
        case DropDeployment():
            return 2, action.deployment_id
        case StartAttempt():
            return 3, action.wanted.attempt_id
        case ReceiveDeployment():
            return 4, action.wanted.deployment_id
