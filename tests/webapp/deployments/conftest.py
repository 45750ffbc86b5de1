"""Four nodes in two racks, and a model on its way to them; the agents' reports are said by hand."""

from collections.abc import Callable

import pytest

from platform_core.distribution.content.manifest import ManifestBuilder
from webapp.accounts.models import Team, User
from webapp.accounts.queries import actor_of
from webapp.artifacts import services as artifacts
from webapp.deployments import services
from webapp.deployments.models import Deployment
from webapp.nodes.models import Node
from webapp.registry import services as registry
from webapp.registry.models import ModelVersion

SIZE = 10 * 2**20


@pytest.fixture
def nodes(node: Callable[..., Node]) -> list[Node]:
    return [node(f"node-{index}", rack=f"rack-{index % 2}") for index in range(4)]


@pytest.fixture
def version(vision: Team, owner: User) -> ModelVersion:
    builder = ManifestBuilder("model", chunk_size=4 * 2**20, piece_size=2**20)
    builder.feed("weights.bin", bytes(SIZE))
    manifest = artifacts.register(builder.finish(), "vision", "file:///somewhere")
    return registry.register(actor_of(owner), "vision", "bytelm", manifest=manifest.id)


@pytest.fixture
def deployment(version: ModelVersion, owner: User, nodes: list[Node]) -> Deployment:
    return services.create(actor_of(owner), "vision/bytelm", 1)
