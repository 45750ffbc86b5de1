"""What a token of the scope admin opens over REST: what its admin's session opens. Of others: test_permissions."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from tests.webapp.conftest import Cast, with_admin_token
from tests.webapp.test_permissions import ROWS, Row, ask, letter
from tests.webapp.test_permissions import stage as stage
from tests.webapp.world import World


@pytest.fixture(scope="module")
def program(stage: tuple[Cast, World], django_db_blocker: Any) -> APIClient:
    with django_db_blocker.unblock():
        return with_admin_token(stage[0].admin)


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.api], ids=lambda row: f"{row.method} /{row.address or row.pattern}"
)
def test_an_admins_token_of_the_scope_admin_gets_what_the_admin_gets(
    row: Row, stage: tuple[Cast, World], program: APIClient
) -> None:
    assert letter(ask(program, row, stage[1])) == row.expected.split()[-1]
