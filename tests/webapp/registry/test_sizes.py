"""A version that is read from a source is cut as fits the nodes and their links, and as the version before it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings

from platform_core.distribution.planning.sizes import Sizes, advise, sizes_of
from webapp.accounts.models import Team, User
from webapp.accounts.queries import actor_of
from webapp.nodes.models import Node
from webapp.registry import services
from webapp.registry.models import ModelVersion

SLOW, QUICK = 1_000_000, 1_250_000_000
SIZE = 600 << 10


@pytest.fixture
def register(
    vision: Team, owner: User, node: Callable[..., Node], settings: LazySettings, tmp_path: Path
) -> Callable[..., Sizes | None]:
    settings.SOURCE_PREFIXES = [tmp_path.as_uri()]
    for number in range(3):
        node(f"node-{number}")

    def register(content: bytes, rate: int) -> Any:
        settings.NETWORK_BYTES_PER_SECOND = rate
        folder = tmp_path / f"v{ModelVersion.objects.count()}"
        folder.mkdir()
        (folder / "weights.bin").write_bytes(content)
        version = services.register(actor_of(owner), "vision", "bytelm", source_url=folder.as_uri())
        services.read_source(version.id)
        version.refresh_from_db()
        assert version.manifest is not None, version.error
        return sizes_of(version.manifest.document)

    return register


def test_sizes_are_those_that_are_advised_for_the_nodes_and_the_link(register: Callable[..., Sizes]) -> None:
    found = register(bytes(SIZE), SLOW)
    assert found.piece == advise(SIZE, 3, SLOW).piece == 64 << 10
    assert found.chunk == 64 << 10


def test_the_next_version_is_cut_alike_so_that_what_did_not_change_is_known_again(
    register: Callable[..., Sizes],
) -> None:
    first = register(bytes(SIZE), SLOW)
    assert register(bytes(2 * SIZE), 2 * SLOW) == first
    new_network = register(bytes(SIZE), QUICK)
    assert new_network.piece == advise(SIZE, 3, QUICK).piece > 4 * first.piece
