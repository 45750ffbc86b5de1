"""Who gets into the operators' admin, and that every page of it opens. What it changes: test_departments, for one."""

from collections.abc import Callable

import pytest
from django.test import Client

from tests.webapp.conftest import Cast
from tests.webapp.test_permissions import PEOPLE
from tests.webapp.world import build
from webapp.accounts.models import User


@pytest.fixture
def people(cast: Cast, browser: Callable[[User], Client]) -> dict[str, Client]:
    build(cast)
    signed_in = {name: browser(getattr(cast, name)) for name in PEOPLE if name != "anonymous"}
    return {"anonymous": Client(), **signed_in}


def test_the_operators_admin_is_for_admins(people: dict[str, Client]) -> None:
    statuses = {name: client.get("/admin/").status_code for name, client in people.items()}
    assert statuses.pop("admin") == 200
    assert set(statuses.values()) == {302}  # to the admin's own login


def test_every_page_of_the_operators_admin_opens(people: dict[str, Client]) -> None:
    root = people["admin"].get("/admin/").content.decode()
    links = {part.partition('"')[0] for part in root.split('href="')[1:]}
    lists = {link for link in links if link.startswith("/admin/") and link.count("/") == 4}
    assert len(lists) >= 10
    for link in sorted(lists):
        assert people["admin"].get(link).status_code == 200, link
