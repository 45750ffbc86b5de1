"""What a token of the scope admin opens over REST: what its admin's session opens. Of others: test_permissions."""

from collections.abc import Callable

import pytest
from rest_framework.test import APIClient

from tests.webapp.conftest import Cast
from tests.webapp.test_permissions import ROWS, Row, ask, letter
from tests.webapp.world import World, build
from webapp.accounts.models import User


@pytest.fixture
def world(cast: Cast, vision: object, nlp: object) -> World:
    return build(cast)


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.api], ids=lambda row: f"{row.method} /{row.address or row.pattern}"
)
def test_an_admins_token_of_the_scope_admin_gets_what_the_admin_gets(
    row: Row, world: World, cast: Cast, admin_api: Callable[[User], APIClient]
) -> None:
    assert letter(ask(admin_api(cast.admin), row, world)) == row.expected.split()[-1]
