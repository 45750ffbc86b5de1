"""Switching nodes to a version: canaries, health checks, promotion and the way back; agents are played by hand."""

from collections.abc import Callable
from typing import Any

import pytest

from platform_core.distribution.rollouts.states import DESCRIPTION, RolloutState
from platform_core.errors import IllegalTransition, TrainmasterError
from platform_core.node.observed import DeploymentObserved, TransferState
from tests.webapp.orders import activations_on, coordinate, wanted_on
from tests.webapp.rollouts.acting import SIZE, WATCHED, Agents, new_version, rounds, state
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.base import lease
from webapp.deployments import services
from webapp.deployments.models import Deployment
from webapp.deployments.values import Manner
from webapp.events.queries import story
from webapp.nodes.models import Node
from webapp.registry.models import ModelVersion
from webapp.rollouts import coordination
from webapp.rollouts import services as rollouts
from webapp.rollouts.models import Rollout, RolloutMember
from webapp.rollouts.values import RolloutWish


def test_a_canary_is_checked_and_then_the_others_follow(
    first: Deployment, deploy: Callable[..., Deployment], agents: Agents, owner: User
) -> None:
    row = deploy(2)
    agents.hold(row)
    rounds(agents)
    assert (state(row), agents.active()) == ("holding", {"node-0": "2", "node-1": "1", "node-2": "1"})
    rollouts.promote(actor_of(owner), row.id)
    assert state(row) == "holding", "the canary is checked once more"
    rounds(agents)
    assert (state(row), set(agents.active().values())) == ("active", {"2"})
    kinds = [event.kind for event in story(f"deployment:{row.id}")]
    for kind in (
        "RolloutPlanned",
        "VersionActivated",
        "HealthCheckSucceeded",
        "PromotionRequested",
        "RolloutCompleted",
    ):
        assert kind in kinds


def test_after_a_failed_check_nobody_follows_and_it_is_said_why(
    first: Deployment, deploy: Callable[..., Deployment], agents: Agents, owner: User
) -> None:
    agents.health = 7
    row = deploy(2)
    agents.hold(row)
    rounds(agents)
    assert (state(row), agents.active()["node-1"]) == ("failed", "1")
    assert Rollout.objects.get(deployment=row).reason == "node-0: check-model ended with 7"
    with pytest.raises(IllegalTransition):
        rollouts.promote(actor_of(owner), row.id)
    told = [event.cause for event in story(f"deployment:{row.id}") if event.kind == "HealthCheckFailed"]
    assert told == ["node-0 is not well: check-model ended with 7: perplexity 9"]
    agents.health = 0
    rollouts.retry(actor_of(owner), row.id)
    rounds(agents)
    assert state(row) == "holding"


def test_back_in_one_call_to_what_each_node_ran(
    first: Deployment, deploy: Callable[..., Deployment], agents: Agents, owner: User
) -> None:
    row = deploy(2, RolloutWish())
    agents.hold(row)
    rounds(agents)
    assert set(agents.active().values()) == {"2"}
    rollouts.roll_back(actor_of(owner), row.id)
    rounds(agents)
    assert (state(row), set(agents.active().values())) == ("rolled_back", {"1"})
    assert set(RolloutMember.objects.filter(rollout=row.id).values_list("state", flat=True)) == {"returned"}
    rollouts.roll_back(actor_of(owner), row.id)  # twice is once


def test_without_a_version_before_nothing_is_active_afterwards(
    first: Deployment, agents: Agents, owner: User
) -> None:
    rollouts.roll_back(actor_of(owner), first.id)
    rounds(agents)
    assert agents.active() == {}


def test_a_rollback_that_a_hook_does_not_like_is_told(
    first: Deployment, deploy: Callable[..., Deployment], agents: Agents, owner: User
) -> None:
    row = deploy(2, RolloutWish())
    agents.hold(row)
    rounds(agents)
    agents.hook = {"node-1": 3}
    rollouts.roll_back(actor_of(owner), row.id)
    rounds(agents)
    assert set(agents.active().values()) == {"1"}
    told = [event.cause for event in story(f"deployment:{row.id}") if event.kind == "VersionReturned"]
    assert "node-1 runs what it ran before version 2, but its hook ended with 3: no such service" in told


def test_a_node_whose_hook_failed_goes_on_with_the_version_before(
    first: Deployment, deploy: Callable[..., Deployment], agents: Agents
) -> None:
    agents.hook = {"node-2": 3}
    row = deploy(2, RolloutWish(hook="reload"))
    agents.hold(row)
    agents.act()
    wanted = {node.hostname: activations_on(node.id)[0].version for node in agents.nodes}
    assert (state(row), wanted) == ("active", {"node-0": "2", "node-1": "2", "node-2": "1"})


def test_only_one_rollout_of_a_model_at_a_time(
    first: Deployment, deploy: Callable[..., Deployment], owner: User
) -> None:
    second = deploy(2)
    with pytest.raises(TrainmasterError, match=rf"that of version 2 \({second.id}\) is distributing"):
        deploy(3)
    deploy(3, None)  # bringing the bytes is not a rollout
    rollouts.roll_back(actor_of(owner), second.id)
    assert state(deploy(3)) == "distributing"
    with pytest.raises(IllegalTransition, match=r"Version 3 .* roll that one back first"):
        rollouts.roll_back(actor_of(owner), first.id)


def test_what_is_active_and_what_was_before_stay_wanted_whatever_is_brought_later(
    first: Deployment,
    deploy: Callable[..., Deployment],
    agents: Agents,
    versions: list[ModelVersion],
    owner: User,
) -> None:
    for n in (3, 4):
        new_version(owner, n)
    for version in (3, 4, 5):
        deploy(version, None)
    node = agents.nodes[0].id
    assert {each.version for each in wanted_on(node)} == {"1", "4", "5"}
    second = deploy(2, RolloutWish())
    agents.hold(second)
    rounds(agents)
    for version in (3, 4, 5):
        deploy(version, None)
    assert {each.version for each in wanted_on(node)} == {"1", "2", "4", "5"}
    (active,) = activations_on(node)
    assert (active.version, active.previous_version) == ("2", "1")


def test_after_a_rollback_the_version_before_is_fetched_again_for_the_next_one(
    first: Deployment, deploy: Callable[..., Deployment], agents: Agents, owner: User
) -> None:
    node = agents.nodes[0].id
    for version in (2, 3):
        row = deploy(version, RolloutWish())
        agents.hold(row)
        rounds(agents)
    assert {each.version for each in wanted_on(node)} == {"2", "3"}, "1 may go"
    rollouts.roll_back(actor_of(owner), row.id)
    rounds(agents)
    services.report(node, DeploymentObserved(first.id, TransferState.RECEIVING, 10, SIZE))
    assert "1" in {each.version for each in wanted_on(node)}
    (active,) = activations_on(node)
    assert (active.version, active.previous_version) == ("2", "1")


def test_a_newer_deployment_of_the_same_version_leaves_it_active(
    first: Deployment, deploy: Callable[..., Deployment], agents: Agents
) -> None:
    deploy(1, None)
    (active,) = activations_on(agents.nodes[0].id)
    assert (active.version, active.deployment_id) == ("1", first.id)


def test_a_cancelled_deployment_is_rolled_back(
    first: Deployment, deploy: Callable[..., Deployment], agents: Agents, owner: User
) -> None:
    row = deploy(2)
    agents.hold(row, "node-0")
    agents.act()
    assert agents.active()["node-0"] == "2"
    services.cancel(actor_of(owner), row.id)
    rounds(agents)
    assert (state(row), agents.active()["node-0"]) == ("rolled_back", "1")


def test_a_canary_without_room_is_replaced(deploy: Callable[..., Deployment], agents: Agents) -> None:
    row = deploy(2)
    agents.lose(row, "node-0", "the disk is full")
    agents.hold(row, "node-1", "node-2")
    rounds(agents)
    assert agents.active() == {"node-1": "2"}


def test_all_wait_for_the_last_node(deploy: Callable[..., Deployment], agents: Agents) -> None:
    row = deploy(2, RolloutWish(wait_for_all=True))
    agents.hold(row, "node-0", "node-1")
    rounds(agents)
    assert agents.active() == {}
    agents.hold(row, "node-2")
    rounds(agents)
    assert (state(row), len(agents.active())) == ("active", 3)


def test_a_hold_ends_by_the_clock(
    deploy: Callable[..., Deployment], agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = deploy(2, RolloutWish(canary="1", hold_seconds=600))
    agents.hold(row)
    rounds(agents)
    coordinate()
    assert state(row) == "holding"
    later = Rollout.objects.get(deployment=row).holding_since_ms + 600_000
    monkeypatch.setattr(rollouts, "now_ms", lambda: later)
    coordinate()
    rounds(agents)
    assert state(row) == "active"


def test_canaries_are_checked_again_as_long_as_they_are_held_and_go_back_after_two_failures(
    first: Deployment,
    deploy: Callable[..., Deployment],
    agents: Agents,
    monkeypatch: pytest.MonkeyPatch,
    browser: Callable[..., Any],
    owner: User,
) -> None:
    row = deploy(2, WATCHED)
    agents.hold(row)
    rounds(agents)
    began = Rollout.objects.get(deployment=row).asked_ms
    for number in range(1, 4):
        monkeypatch.setattr(rollouts, "now_ms", lambda: began + number * 20_000)  # noqa: B023
        agents.health = 7 if number > 1 else 0
        coordinate()
        rounds(agents, 1)
        if number == 2:
            told = browser(owner).get(f"/api/v1/deployments/{row.id}").json()["rollout"]
            assert (told["state"], told["check_round"], told["checks"][0]["failures"]) == ("holding", 3, 1)
            page = browser(owner).get(f"/deployments/{row.id}/").content.decode()
            assert "node-0: check-model ended with 7, 1 of 2 in a row that take it back." in page
            assert "3 rounds of checks so far; the next in" in page
    rounds(agents)
    assert (state(row), set(agents.active().values())) == ("rolled_back", {"1"})
    events = [
        (event.kind, event.cause)
        for event in story(f"deployment:{row.id}")
        if "Check" in event.kind or "Roll" in event.kind
    ]
    assert events[1:] == [
        ("RolloutCanary", "The canaries switch."),
        ("RolloutHolding", DESCRIPTION[RolloutState.HOLDING]),
        ("HealthCheckSucceeded", "node-0 passed check-model"),
        ("HealthCheckFailed", "node-0 is not well: check-model ended with 7: perplexity 9; 1 of 2 in a row"),
        ("HealthCheckFailed", "node-0 is not well: check-model ended with 7: perplexity 9; 2 of 2 in a row"),
        ("RolloutRolledBack", "every node goes back: node-0: check-model ended with 7, 2 times in a row"),
    ]
    page = browser(owner).get(f"/deployments/{row.id}/").content.decode()
    assert "By itself. node-0: check-model ended with 7, 2 times in a row." in page
    assert "every 20 s, 2 failures in a row take every node back" in page


def test_only_the_coordinator_that_leads_ends_a_hold(
    deploy: Callable[..., Deployment], agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = deploy(2, RolloutWish(canary="1", hold_seconds=600))
    agents.hold(row)
    rounds(agents)
    later = Rollout.objects.get(deployment=row).holding_since_ms + 600_000
    monkeypatch.setattr(rollouts, "now_ms", lambda: later)
    old = lease.acquire("rollouts", "this-machine:1")
    assert old is not None
    lease.release(old)
    newer = lease.acquire("rollouts", "another-machine:1")
    assert newer is not None
    before = Rollout.objects.values().get(deployment=row)
    assert coordination.coordinate() is False
    with pytest.raises(lease.LostLease):
        coordination.advance(row.id, old)
    assert Rollout.objects.values().get(deployment=row) == before
    coordination.advance(row.id, newer)
    assert Rollout.objects.get(deployment=row).released


def test_a_node_that_is_lost_while_it_switches_is_passed_by_and_follows_when_it_is_back(
    deploy: Callable[..., Deployment], agents: Agents
) -> None:
    row = deploy(2, RolloutWish())
    agents.hold(row)
    agents.act("node-0", "node-1")
    Node.objects.filter(hostname="node-2").update(state="lost")
    coordinate()
    assert state(row) == "active"
    assert Rollout.objects.get(deployment=row).reason == "node-2 has no copy: its node is lost"
    Node.objects.filter(hostname="node-2").update(state="ready")
    coordinate()
    agents.act()
    assert (len(agents.active()), Rollout.objects.get(deployment=row).reason) == (3, "")


def test_an_agent_that_looks_at_what_it_holds_again_stays_where_it_is(
    first: Deployment, agents: Agents
) -> None:
    node = agents.nodes[0]
    services.report(
        node.id,
        DeploymentObserved(first.id, TransferState.RECEIVING, SIZE, SIZE, b"\x01"),
    )
    assert activations_on(node.id)[0].version == "1"
    services.report(node.id, DeploymentObserved(first.id, TransferState.RECEIVING, 10, SIZE))
    assert activations_on(node.id) == [], "its copy is gone"
    agents.hold(first, "node-0")
    assert activations_on(node.id)[0].version == "1"


@pytest.mark.parametrize(
    ("wish", "why"),
    [
        (RolloutWish(canary="4"), "4 canaries of 3 nodes"),
        (RolloutWish(canary="some"), "neither a number of nodes nor a percentage"),
        (RolloutWish(health_check="check-model"), "are for canaries"),
        (RolloutWish(hook="/bin/sh"), "no name of a command"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_moves(
    wish: RolloutWish, why: str, deploy: Callable[..., Deployment]
) -> None:
    with pytest.raises(TrainmasterError, match=why):
        deploy(2, wish)
    assert not Deployment.objects.exists()


def test_what_is_preheated_is_never_made_active(
    owner: User, versions: list[ModelVersion], nodes: list[Node]
) -> None:
    manner = Manner(preheat=True)
    with pytest.raises(TrainmasterError, match="never made active"):
        rollouts.deploy(actor_of(owner), "vision/bytelm", 1, wish=RolloutWish(), manner=manner)
