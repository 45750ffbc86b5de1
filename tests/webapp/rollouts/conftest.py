"""Three nodes in three racks, three versions of a model, and a rollout of one of them."""

from collections.abc import Callable

import pytest

from tests.webapp.rollouts.acting import CHECKED, Agents, new_version, rounds, state
from webapp.accounts.models import Team, User
from webapp.accounts.queries import actor_of
from webapp.deployments.models import Deployment
from webapp.nodes.models import Node
from webapp.registry.models import ModelVersion
from webapp.rollouts import services as rollouts
from webapp.rollouts.values import RolloutWish


@pytest.fixture
def nodes(node: Callable[..., Node]) -> list[Node]:
    return [node(f"node-{index}", rack=f"rack-{index}") for index in range(3)]


@pytest.fixture
def versions(vision: Team, owner: User) -> list[ModelVersion]:
    return [new_version(owner, n) for n in range(3)]


@pytest.fixture
def deploy(owner: User, versions: list[ModelVersion], nodes: list[Node]) -> Callable[..., Deployment]:
    def begin(version: int = 1, wish: RolloutWish | None = CHECKED) -> Deployment:
        return rollouts.deploy(actor_of(owner), "vision/bytelm", version, wish=wish)

    return begin


@pytest.fixture
def agents(nodes: list[Node]) -> Agents:
    return Agents(nodes)


@pytest.fixture
def first(deploy: Callable[..., Deployment], agents: Agents) -> Deployment:
    """Version 1 is active everywhere."""
    row = deploy(1, RolloutWish())
    agents.hold(row)
    rounds(agents)
    assert state(row) == "active"
    return row
