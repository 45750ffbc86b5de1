"""Departments: who may make and move them, what is refused, what the scheduler is told of them, and the page."""

import re
from collections.abc import Callable

import pytest
from django.test import Client

from platform_core.errors import TrainmasterError
from platform_core.units import DAY_MS, HOUR_MS
from tests.support.rivals import rival
from tests.webapp.conftest import Cast
from webapp.accounts import queries as accounts
from webapp.accounts import services
from webapp.accounts.models import Department, Team, User
from webapp.accounts.permissions import SYSTEM, Actor
from webapp.events.models import Event
from webapp.nodes.models import Node
from webapp.quotas import queries, sharing, tree
from webapp.quotas.models import Quota

ActorOf = Callable[[User], Actor]
Give = Callable[..., Quota]
Hold = Callable[..., None]
Browser = Callable[[User], Client]
NOW = 1_000 * DAY_MS


@pytest.fixture
def research(cast: Cast, vision: Team, nlp: Team) -> Team:
    """Research (weight 3) has vision and, in its department language, nlp and speech; search is in none."""
    services.create_department(SYSTEM, "research", "Research", 3)
    services.create_department(SYSTEM, "language", "Language science", 1, parent="research")
    services.change_team(SYSTEM, "vision", department="research")
    services.change_team(SYSTEM, "nlp", department="language")
    services.create_team(SYSTEM, "speech", "Speech", department="language")
    return services.create_team(SYSTEM, "search", "Search")


@pytest.fixture
def shared(research: Team, node: Callable[..., Node], quota: Give, hold: Hold, owner: User) -> None:
    """64 slots. Research has used nine times as much as search, and all of it was vision."""
    node(slots=64)
    teams = {team.slug: team for team in Team.objects.all()}
    for team in teams.values():
        quota(team, guaranteed=4, maximum=60)
    hold(teams["vision"], owner, slots=9, at_ms=NOW - HOUR_MS)
    hold(teams["search"], owner, slots=1, at_ms=NOW - HOUR_MS)


def rows(page: str) -> list[str]:
    """What stands first in each row, with how far in: "0 Research"."""
    found = re.findall(
        r'<tr data-key="[^"]*" class="in-(\d)[^"]*">(?:<th scope="row">([^<]*)|<td><a [^>]*>([^<]*))', page
    )
    return [f"{depth} {department or team}" for depth, department, team in found]


@pytest.mark.parametrize("person", ["owner", "member", "lead", "outsider"])
def test_only_an_admin_makes_departments(cast: Cast, actor: ActorOf, person: str) -> None:
    with pytest.raises(TrainmasterError, match="ask a platform admin") as refusal:
        services.create_department(actor(getattr(cast, person)), "research", "Research")
    assert refusal.value.code == "not_allowed"
    assert not accounts.departments()


def test_an_admin_makes_and_moves_one_and_the_audit_log_tells(cast: Cast, actor: ActorOf) -> None:
    services.create_department(actor(cast.admin), "science", "Science")
    services.create_department(actor(cast.admin), "research", "Research")
    services.change_department(actor(cast.admin), "research", weight=2, parent="science")
    assert [(each.slug, each.weight, each.parent) for each in accounts.departments()] == [
        ("research", 2, "science"), ("science", 1, None),
    ]  # fmt: skip
    event = Event.objects.filter(subject_id="research").latest("id")
    assert (event.kind, event.actor, event.cause) == (
        "DepartmentChanged",
        "user:root",
        "Research, weight 2, in science",
    )
    assert event.data["before"] == {"name": "Research", "weight": 1, "parent_id": None}


def test_a_department_is_not_moved_into_what_is_within_it(research: Team) -> None:
    with pytest.raises(TrainmasterError) as refusal:
        services.change_department(SYSTEM, "research", parent="language")
    assert refusal.value.sentence == (
        "The department research is not valid: a department cannot be within itself: research in language in "
        "research; choose another parent, or none"
    )
    assert Department.objects.get(slug="research").parent_id is None


def test_a_parent_that_does_not_exist_is_refused(cast: Cast) -> None:
    for make in (
        lambda: services.create_department(SYSTEM, "research", "Research", 1, "arts"),
        lambda: services.create_team(SYSTEM, "speech", "Speech", department="arts"),
    ):
        with pytest.raises(
            TrainmasterError, match="There is no department arts; make it first, or give none"
        ):
            make()


def test_a_circle_in_the_operators_admin_comes_back_with_the_form(
    research: Team, browser: Browser, admin: User
) -> None:
    form = {"name": "Research", "weight": "3", "parent": "language"}
    page = browser(admin).post("/admin/accounts/department/research/change/", form)
    assert "a department cannot be within itself: research in language in research" in page.content.decode()
    assert Department.objects.get(slug="research").parent_id is None


def test_in_the_operators_admin_a_team_moves_to_another_department(
    research: Team, browser: Browser, admin: User
) -> None:
    form = {"slug": "search", "name": "Search", "weight": "2", "department": "research"}
    inline = {"membership_set-TOTAL_FORMS": "0", "membership_set-INITIAL_FORMS": "0"}
    browser(admin).post("/admin/accounts/team/search/change/", form | inline)
    team = accounts.team("search")
    assert (team.weight, team.department) == (2, "research")
    assert Event.objects.filter(kind="TeamChanged", actor="user:root").exists()


@pytest.mark.parametrize("person", ["owner", "member", "lead", "outsider"])
def test_the_operators_admin_is_closed_to_others(
    research: Team, cast: Cast, browser: Browser, person: str
) -> None:
    form = {"name": "Mine", "weight": "100", "parent": ""}
    answer = browser(getattr(cast, person)).post("/admin/accounts/department/research/change/", form)
    assert answer.status_code == 302
    assert Department.objects.get(slug="research").name == "Research"


def test_a_department_that_has_teams_stays(research: Team, browser: Browser, admin: User) -> None:
    client = browser(admin)
    client.post("/admin/accounts/department/language/delete/", {"post": "yes"})
    assert Department.objects.filter(slug="language").exists()
    Team.objects.filter(department="language").update(department=None)
    client.post("/admin/accounts/department/language/delete/", {"post": "yes"})
    assert not Department.objects.filter(slug="language").exists()
    assert Event.objects.filter(kind="DepartmentDeleted").exists()


def test_the_scheduler_is_told_what_the_weights_come_to(shared: None) -> None:
    told = {share.team: share for share in queries.team_shares(NOW)}
    assert {team: share.weight for team, share in told.items()} == {
        "vision": 1.5, "nlp": 0.75, "speech": 0.75, "search": 1.0,
    }  # fmt: skip
    assert {team: round(share.usage_share, 2) for team, share in told.items()} == {
        "vision": 1.45, "nlp": 1.2, "speech": 1.2, "search": 0.4,
    }  # fmt: skip


def test_a_moved_team_counts_where_it_is_at_once(shared: None) -> None:
    before = {share.team: share.usage_share for share in queries.team_shares(NOW)}
    Team.objects.filter(slug="speech").update(department=None)
    after = {share.team: share.usage_share for share in queries.team_shares(NOW)}
    assert (round(before["speech"], 2), after["speech"]) == (1.2, 0.0)


def test_a_team_that_comes_while_the_shares_are_read_is_left_out(
    research: Team, quota: Give, vision: Team
) -> None:
    quota(vision)
    known = tree.load()
    quota(services.create_team(SYSTEM, "newcomer", "Newcomer"))
    assert [share.team for share in queries.team_shares(NOW, known)] == ["vision"]


def test_departments_count_only_where_a_team_of_theirs_has_a_quota(
    research: Team, quota: Give, vision: Team
) -> None:
    quota(vision)
    quota(research)
    assert {share.team: share.weight for share in queries.team_shares(NOW)} == {"vision": 3.0, "search": 1.0}


def test_what_a_team_deserves_follows_the_tree(shared: None) -> None:
    deserved = {each.quota.team: each.share.deserved for each in sharing.standings(NOW)["cpu"].teams}
    assert deserved == {"vision": 4 + 18, "nlp": 4 + 9, "speech": 4 + 9, "search": 4 + 12}


def test_the_page_shows_departments_above_their_teams_with_sums(
    shared: None, browser: Browser, admin: User
) -> None:
    page = browser(admin).get("/shares/").content.decode()
    assert rows(page) == ["0 Research", "1 Language science", "2 nlp", "2 speech", "1 vision", "0 search"]
    research = page[page.index('data-key="research/"') : page.index('data-key="language/"')]
    assert "3 teams" in research
    assert '<td class="n">48</td>' in research  # deserved
    assert "1.20 ×" in research
    assert '3<div class="under">75 %</div>' in research
    nlp = page[page.index('data-key="nlp"') : page.index('data-key="speech"')]
    assert '0.00 ×<div class="under hide-s">0.0 GPU-h, counts 1.20 ×</div>' in nlp
    assert "counts" not in page[page.index('data-key="search"') : page.index("</table>")]


def test_a_member_sees_the_departments_above_the_own_team_only(
    shared: None, browser: Browser, member: User, outsider: User
) -> None:
    assert rows(browser(member).get("/shares/").content.decode()) == ["0 Research", "1 vision"]
    assert rows(browser(outsider).get("/shares/").content.decode()) == [
        "0 Research",
        "1 Language science",
        "2 nlp",
    ]


def test_departments_take_no_more_queries_than_one(
    shared: None, django_assert_max_num_queries: Callable[..., object]
) -> None:
    for number in range(20):
        services.create_department(SYSTEM, f"d-{number}", f"Department {number}", 1, "research")
    queries.team_shares(NOW)
    with django_assert_max_num_queries(4):  # type: ignore[attr-defined]
        queries.team_shares(NOW)


def test_two_moves_at_once_do_not_make_a_circle_together(research: Team, transactional_db: None) -> None:
    services.create_department(SYSTEM, "product", "Product")
    outcome: list[str] = []
    with rival(lambda: services.change_department(SYSTEM, "product", parent="research"), outcome) as begins:
        services.change_department(SYSTEM, "research", parent="product")
        begins()
    assert outcome == ["request_invalid"]
