"""`reconcile` against a model of a node: whatever is wanted in whatever order, the node comes to it and stays."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from agent.reconcile import (
    DEFAULT_GRACE_SECONDS,
    Action,
    DropDeployment,
    ForgetAttempt,
    ReceiveDeployment,
    StartAttempt,
    StopAttempt,
    reconcile,
)
from platform_core.jobs.job import MemberPhase
from platform_core.node.observed import AttemptObserved, DeploymentObserved, Observed, TransferState
from platform_core.node.wanted import (
    ArtifactReference,
    AttemptWanted,
    DeploymentWanted,
    Peer,
    Wanted,
    WantedAction,
)
from tests.agent.launches import LAUNCH

IDS = ("att-a", "att-b", "att-c")
DEPLOYMENTS = ("dep-a", "dep-b")


def run(attempt_id: str) -> AttemptWanted:
    return AttemptWanted(attempt_id, WantedAction.RUN, 10, LAUNCH)


def stop(attempt_id: str) -> AttemptWanted:
    return AttemptWanted(attempt_id, WantedAction.STOP, 10, None)


def deployment(deployment_id: str, predecessor: str = "") -> DeploymentWanted:
    peers = (Peer(predecessor, "host:1"),) if predecessor else ()
    return DeploymentWanted(deployment_id, "vision/m", "1", ArtifactReference("man-1", "file:///m"), peers)


def wanted(*attempts: AttemptWanted, deployments: tuple[DeploymentWanted, ...] = ()) -> Wanted:
    return Wanted(1, attempts, deployments)


attempts_wanted = st.lists(
    st.sampled_from(IDS).flatmap(lambda one: st.sampled_from([run(one), stop(one)])),
    unique_by=lambda attempt: attempt.attempt_id,
)
deployments_wanted = st.lists(
    st.sampled_from(DEPLOYMENTS).flatmap(
        lambda one: st.sampled_from(["", "node-1", "node-2"]).map(lambda peer: deployment(one, peer))
    ),
    unique_by=lambda each: each.deployment_id,
)
wishes = st.builds(lambda a, d: Wanted(1, tuple(a), tuple(d)), attempts_wanted, deployments_wanted)
attempts_observed = st.builds(
    lambda one, phase, stopping: AttemptObserved(
        one, phase, stopping=stopping and phase is not MemberPhase.EXITED
    ),
    st.sampled_from(IDS),
    st.sampled_from(MemberPhase),
    st.booleans(),
)
deployments_observed = st.builds(
    lambda one, phase, peer: DeploymentObserved(
        one, phase, acting_on=None if peer is None else deployment(one, peer)
    ),
    st.sampled_from(DEPLOYMENTS),
    st.sampled_from(TransferState),
    st.sampled_from([None, "", "node-1"]),
)
situations = st.builds(
    lambda a, d: Observed(tuple(a), tuple(d)),
    st.lists(attempts_observed, unique_by=lambda each: each.attempt_id),
    st.lists(deployments_observed, unique_by=lambda each: each.deployment_id),
)


class ModelNode:
    """What the real node does with actions, as values."""

    def __init__(self, observed: Observed) -> None:
        self.attempts = {attempt.attempt_id: attempt for attempt in observed.attempts}
        self.deployments = {each.deployment_id: each for each in observed.deployments}
        self.started: list[str] = []

    @property
    def observed(self) -> Observed:
        return Observed(tuple(self.attempts.values()), tuple(self.deployments.values()))

    def carry_out(self, action: Action) -> None:
        match action:
            case StartAttempt():
                assert action.wanted.attempt_id not in self.attempts
                self.started.append(action.wanted.attempt_id)
                self.attempts[action.wanted.attempt_id] = AttemptObserved(
                    action.wanted.attempt_id, MemberPhase.PREPARING
                )
            case StopAttempt():
                here = self.attempts.get(action.attempt_id)
                if here is None:
                    self.attempts[action.attempt_id] = AttemptObserved(action.attempt_id, MemberPhase.EXITED)
                else:
                    self.attempts[action.attempt_id] = replace(here, stopping=True)
            case ForgetAttempt():
                assert self.attempts.pop(action.attempt_id).phase is MemberPhase.EXITED
            case ReceiveDeployment():
                self.deployments[action.wanted.deployment_id] = DeploymentObserved(
                    action.wanted.deployment_id, TransferState.RECEIVING, acting_on=action.wanted
                )
            case DropDeployment():
                del self.deployments[action.deployment_id]

    def time_passes(self) -> None:
        for attempt_id, attempt in self.attempts.items():
            if attempt.stopping:
                self.attempts[attempt_id] = replace(attempt, phase=MemberPhase.EXITED, stopping=False)

    def settle(self, wish: Wanted) -> None:
        for _ in range(5):
            for action in reconcile(wish, self.observed):
                self.carry_out(action)
            self.time_passes()


@given(wishes, situations)
def test_settles_on_what_is_wanted_and_then_does_nothing_more(wish: Wanted, situation: Observed) -> None:
    node = ModelNode(situation)
    node.settle(wish)
    assert reconcile(wish, node.observed) == ()
    assert set(node.attempts) == {attempt.attempt_id for attempt in wish.attempts}
    assert set(node.deployments) == {each.deployment_id for each in wish.deployments}
    for attempt in wish.attempts:
        if attempt.action is WantedAction.STOP:
            assert node.attempts[attempt.attempt_id].phase is MemberPhase.EXITED


@given(wishes, situations)
def test_carrying_out_the_same_wish_again_at_once_changes_nothing(wish: Wanted, situation: Observed) -> None:
    node = ModelNode(situation)
    for action in reconcile(wish, node.observed):
        node.carry_out(action)
    ends = [a for a in reconcile(wish, node.observed) if not isinstance(a, ForgetAttempt)]
    assert ends == []


@given(situations, st.lists(wishes, max_size=6))
def test_no_attempt_is_started_twice_while_it_stays_wanted(
    situation: Observed, history: list[Wanted]
) -> None:
    node = ModelNode(situation)
    for wish in history:
        # An attempt id is used once: what was ever here or wanted before is not wanted anew later on.
        node.settle(wish)
        node.settle(wish)
        assert len(node.started) == len(set(node.started))
        node.started.clear()


@given(wishes, situations)
def test_unknown_attempts_that_run_are_stopped(wish: Wanted, situation: Observed) -> None:
    known = {attempt.attempt_id for attempt in wish.attempts}
    stopped = {a.attempt_id for a in reconcile(wish, situation) if isinstance(a, StopAttempt)}
    for attempt in situation.attempts:
        runs = attempt.phase is not MemberPhase.EXITED and not attempt.stopping
        if attempt.attempt_id not in known and runs:
            assert attempt.attempt_id in stopped


@given(wishes, situations)
def test_ends_come_before_beginnings(wish: Wanted, situation: Observed) -> None:
    beginnings = [isinstance(a, StartAttempt | ReceiveDeployment) for a in reconcile(wish, situation)]
    assert beginnings == sorted(beginnings)


def test_an_ended_attempt_that_is_still_wanted_is_left_alone() -> None:
    ended = Observed((AttemptObserved("att-a", MemberPhase.EXITED, exit_code=1),))
    assert reconcile(wanted(run("att-a")), ended) == ()


def test_a_stop_of_what_never_began_is_answered() -> None:
    assert reconcile(wanted(stop("att-a")), Observed()) == (StopAttempt("att-a", 10),)


def test_what_the_server_forgot_gets_a_grace_before_the_kill() -> None:
    running = Observed((AttemptObserved("att-a", MemberPhase.RUNNING),))
    assert reconcile(wanted(), running) == (StopAttempt("att-a", DEFAULT_GRACE_SECONDS),)


def test_a_deployment_with_new_predecessors_goes_on_from_them() -> None:
    before, after = deployment("dep-a", "node-1"), deployment("dep-a", "node-2")
    here = Observed((), (DeploymentObserved("dep-a", TransferState.RECEIVING, acting_on=before),))
    assert reconcile(wanted(deployments=(before,)), here) == ()
    assert reconcile(wanted(deployments=(after,)), here) == (ReceiveDeployment(after),)


def test_a_failed_deployment_is_not_tried_again_for_the_same_order() -> None:
    order = deployment("dep-a", "node-1")
    failed = Observed((), (DeploymentObserved("dep-a", TransferState.FAILED, acting_on=order),))
    assert reconcile(wanted(deployments=(order,)), failed) == ()


def test_secret_values_are_in_no_repr() -> None:
    launch = replace(LAUNCH, secrets=(("HF_TOKEN", "hf_very_secret"),))
    order = AttemptWanted("att-a", WantedAction.RUN, 10, launch)
    assert "hf_very_secret" not in repr(StartAttempt(order))
