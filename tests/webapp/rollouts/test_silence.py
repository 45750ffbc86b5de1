"""Who never answers has failed, once it is sure that it is not only the platform that does not hear."""

from collections.abc import Callable
from typing import Any

import pytest

from platform_core.node.observed import DeploymentObserved, TransferState
from tests.webapp.orders import coordinate
from tests.webapp.rollouts.acting import SIZE, WATCHED, Agents, rounds, state
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.deployments import services
from webapp.deployments.models import Deployment, Worker
from webapp.events.queries import story
from webapp.nodes.models import Node
from webapp.rollouts import services as rollouts
from webapp.rollouts.models import Rollout, RolloutMember
from webapp.rollouts.story import clock
from webapp.rollouts.values import RolloutWish


@pytest.mark.parametrize("gone", [False, True])
def test_a_canary_that_never_answers_its_check_stops_the_rollout_and_it_is_said_who_and_since_when(
    first: Deployment,
    deploy: Callable[..., Deployment],
    agents: Agents,
    monkeypatch: pytest.MonkeyPatch,
    browser: Callable[..., Any],
    owner: User,
    gone: bool,
) -> None:
    row = deploy(2)
    agents.hold(row)
    agents.act("node-0")  # it switches, and says nothing more
    asked = Rollout.objects.get(deployment=row).asked_ms
    due = asked + 90_000  # the minute that the command may take, and 30 s
    page = browser(owner).get(f"/deployments/{row.id}/").content.decode()
    assert "1 round of checks so far; no answer yet from node-0, asked" in page
    canary = Node.objects.filter(hostname="node-0")
    monkeypatch.setattr(rollouts, "now_ms", lambda: due + 10_000)
    canary.update(last_seen_ms=asked + 1_000)
    coordinate()
    assert state(row) == "holding", "perhaps it is the platform that does not hear"
    if gone:
        canary.update(state="lost")
        why = f"the node is gone, last heard {clock(asked + 1_000)}"
    else:
        canary.update(last_seen_ms=due + 5_000)
        why = "though the node is there"
    coordinate()
    since = f"no answer since {clock(asked)}"
    reason = f"node-0: check-model: {since}{';' if gone else ','} {why}"
    told = browser(owner).get(f"/api/v1/deployments/{row.id}").json()["rollout"]
    assert (told["state"], told["reason"]) == ("failed", reason)
    assert told["checks"][0]["exit_code"] is None
    assert agents.active().get("node-1") == "1"
    assert reason in browser(owner).get(f"/deployments/{row.id}/").content.decode()
    events = [event.cause for event in story(f"deployment:{row.id}") if event.kind == "HealthCheckFailed"]
    assert events == [reason.replace("node-0:", "node-0 is not well:", 1)]
    canary.update(state="ready")
    rollouts.retry(actor_of(owner), row.id)
    rounds(agents)
    assert state(row) == "holding"


def test_a_canary_that_never_tells_of_its_switch_stops_the_rollout_and_goes_back_when_it_is_heard(
    first: Deployment, deploy: Callable[..., Deployment], agents: Agents, monkeypatch: pytest.MonkeyPatch,
    browser: Callable[..., Any], owner: User,
) -> None:  # fmt: skip
    row = deploy(2)
    agents.hold(row)  # and the canary does nothing
    told = RolloutMember.objects.get(rollout=row.id, node__hostname="node-0").told_ms
    due = told + 90_000  # the minute that the command may take, and 30 s
    page = browser(owner).get(f"/deployments/{row.id}/").content.decode()
    assert f"No word yet from node-0; without one by {clock(due)} the switch has failed." in page
    canary = Node.objects.filter(hostname="node-0")
    for now, heard in ((due - 1, due - 1), (due + 9_000, told)):  # not yet; perhaps it is we who do not hear
        monkeypatch.setattr(rollouts, "now_ms", lambda: now)  # noqa: B023
        canary.update(last_seen_ms=heard)
        coordinate()
        assert state(row) == "canary"
    canary.update(last_seen_ms=due + 5_000)
    coordinate()
    why = f"reload: no answer since {clock(told)}, though the node is there"
    assert (state(row), Rollout.objects.get(deployment=row).reason) == ("failed", f"node-0: {why}")
    events = [event.cause for event in story(f"deployment:{row.id}") if event.kind == "ActivationFailed"]
    assert events == [f"node-0 is to go back: {why}"]
    assert why in browser(owner).get(f"/deployments/{row.id}/").content.decode()
    agents.act()
    assert set(agents.active().values()) == {"1"}
    rollouts.retry(actor_of(owner), row.id)
    rounds(agents)
    assert state(row) == "holding"


def test_an_agent_that_starts_again_in_its_switch_is_given_time_to_look_at_its_copy(
    deploy: Callable[..., Deployment], agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = deploy(2, RolloutWish())
    agents.hold(row)
    agents.act("node-0", "node-1")
    looks = DeploymentObserved(row.id, TransferState.RECEIVING, SIZE, SIZE, b"\x01")
    services.report(agents.nodes[2].id, looks)
    Worker.objects.update(bytes_total=30 * 10**9, bytes_done=30 * 10**9)  # ten minutes at 50 MB/s
    long_after = RolloutMember.objects.get(rollout=row.id, node=agents.nodes[2]).told_ms + 600_000
    monkeypatch.setattr(rollouts, "now_ms", lambda: long_after)
    Node.objects.update(last_seen_ms=long_after)
    coordinate()
    assert state(row) == "promoting", "it is looking at what it holds"
    agents.hold(row, "node-2")
    Worker.objects.filter(node=agents.nodes[2]).update(finished_ms=long_after - 1_000)
    coordinate()
    assert state(row) == "promoting", "it has had its copy for a second"
    agents.act("node-2")
    assert state(row) == "active"


def test_an_agent_that_never_has_looked_at_its_copy_has_failed_its_switch(
    first: Deployment, deploy: Callable[..., Deployment], agents: Agents, monkeypatch: pytest.MonkeyPatch,
    browser: Callable[..., Any], owner: User,
) -> None:  # fmt: skip
    row = deploy(2)
    agents.hold(row)
    canary = agents.nodes[0]
    told = RolloutMember.objects.get(rollout=row.id, node=canary).told_ms
    services.report(
        canary.id,
        DeploymentObserved(row.id, TransferState.RECEIVING, SIZE, SIZE, b"\x01"),
    )
    due = told + 90_000 + SIZE * 1000 // 50_000_000
    page = browser(owner).get(f"/deployments/{row.id}/").content.decode()
    looks = (
        f"No word yet from node-0, which looks at its copy again; without one by {clock(due)} the switch has"
    )
    assert looks in page
    for now in (due - 1, due):
        assert state(row) == "canary"
        monkeypatch.setattr(rollouts, "now_ms", lambda: now)  # noqa: B023
        Node.objects.filter(id=canary.id).update(last_seen_ms=now)
        coordinate()
    reason = (
        f"node-0: reload: no answer since {clock(told)}, though the node is there and looks at its copy again; "
        "is its disk well?"
    )
    assert (state(row), Rollout.objects.get(deployment=row).reason) == ("failed", reason)
    agents.act("node-1", "node-2")
    assert "2" not in agents.active().values(), "nobody else switches"


def test_silence_takes_every_node_back_where_failures_are_counted(
    first: Deployment, deploy: Callable[..., Deployment], agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = deploy(2, WATCHED)
    agents.hold(row)
    agents.act("node-0")
    for _ in range(2):
        later = Rollout.objects.get(deployment=row).asked_ms + 90_000
        Node.objects.filter(hostname="node-0").update(last_seen_ms=later)
        monkeypatch.setattr(rollouts, "now_ms", lambda: later)  # noqa: B023
        coordinate()
    assert state(row) == "rolled_back"
    assert Rollout.objects.get(deployment=row).reason.endswith("though the node is there, 2 times in a row")


def test_a_lost_node_keeps_nobody_waiting_for_a_rollback(
    first: Deployment, agents: Agents, browser: Callable[..., Any], owner: User
) -> None:
    Node.objects.filter(hostname="node-2").update(state="lost")
    rollouts.roll_back(actor_of(owner), first.id)
    agents.act("node-0", "node-1")
    client = browser(owner)
    told = client.get(f"/api/v1/deployments/{first.id}").json()["rollout"]
    assert (told["nodes_going_back"], told["nodes_away"]) == (0, 1)
    page = client.get(f"/deployments/{first.id}/").content.decode()
    assert "node-2 is lost, and goes back when heard again." in page
    agents.act("node-2")
    told = client.get(f"/api/v1/deployments/{first.id}").json()["rollout"]
    assert (told["nodes_going_back"], told["nodes_away"]) == (0, 0)
