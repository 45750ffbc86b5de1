"""The navigation: few entries, the tabs of a section on each of its pages, letters for the places."""

import re
from collections.abc import Callable

import pytest
from django.test import Client

from webapp.accounts.models import User

Browse = Callable[[User], Client]
SHORTCUTS = {
    "o": "/", "j": "/jobs/", "q": "/queue/", "e": "/experiments/", "m": "/models/", "d": "/deployments/",
    "n": "/nodes/", "p": "/nodes/map/", "f": "/shares/", "r": "/report/", "b": "/alerts/", "a": "/audit/",
    "t": "/teams/vision/", "s": "/settings/", "c": "/jobs/submit/",
}  # fmt: skip


def entries(page: str) -> list[str]:
    nav = page.partition('<nav class="nav"')[2].partition('<details class="user-menu"')[0]
    return re.findall(r"<span>([^<]*)</span> <span class=\"n\">", nav)


def test_a_member_has_at_most_eight_entries(owner: User, browser: Browse) -> None:
    found = entries(browser(owner).get("/").content.decode())
    assert found == [
        "Home",
        "Jobs",
        "Queue",
        "Experiments",
        "Models &amp; data",
        "Nodes",
        "Teams",
        "Insights",
    ]


@pytest.mark.parametrize(
    ("address", "section", "tab"),
    [
        ("/", "Home", "My work"),
        ("/cluster/", "Home", "Cluster"),
        ("/deployments/", "Models &amp; data", "Deployments"),
        ("/nodes/map/", "Nodes", "Map"),
        ("/queue/forecasts/", "Insights", "Forecasts"),
        ("/queue/what-if/", "Insights", "What if"),
        ("/audit/", "Insights", "Audit log"),
        ("/teams/vision/", "Teams", "Vision"),
        ("/shares/", "Teams", "Fair share"),
    ],
)
def test_a_page_marks_its_section_and_its_tab(
    address: str, section: str, tab: str, owner: User, browser: Browse
) -> None:
    page = browser(owner).get(address).content.decode()
    nav = page.partition('<nav class="nav"')[2].partition("</nav>")[0]
    current = re.search(r'aria-current="page">.*?<span>([^<]*)</span>', nav)
    assert current is not None
    assert current[1] == section
    tabs = page.partition('<nav class="tabs" aria-label="Section">')[2].partition("</nav>")[0]
    assert re.findall(r'aria-current="page">([^<]*)</a>', tabs) == [tab]


def test_an_admin_has_the_pages_of_administration(admin: User, browser: Browse) -> None:
    page = browser(admin).get("/manage/quotas/").content.decode()
    assert entries(page)[-1] == "Admin"
    tabs = page.partition('<nav class="tabs" aria-label="Section">')[2].partition("</nav>")[0]
    assert re.findall(r">([^<>]+)</a>", tabs) == ["Users", "Teams", "Departments", "Quotas", "Prices"]


def test_a_page_that_is_alone_in_its_section_has_no_tabs(owner: User, browser: Browse) -> None:
    assert 'aria-label="Section"' not in browser(owner).get("/queue/").content.decode()


def test_only_who_may_add_a_node_has_the_tab_for_it(owner: User, admin: User, browser: Browse) -> None:
    assert ">Add a node</a>" in browser(admin).get("/nodes/").content.decode()
    assert ">Add a node</a>" not in browser(owner).get("/nodes/").content.decode()


def test_each_shortcut_leads_where_it_did(owner: User, browser: Browse) -> None:
    page = browser(owner).get("/queue/").content.decode()
    links = {key: url for url, key in re.findall(r'<a href="([^"]*)" data-go="(\w)">', page)}
    assert links | SHORTCUTS == links
