"""Users, teams, departments, prices and quotas, administered in the browser."""

import re
from collections.abc import Callable

import pytest
from django.test import Client

from tests.webapp.conftest import Cast
from tests.webapp.world import build
from webapp.accounts.models import Department, Role, Team, User
from webapp.accounts.queries import actor_of
from webapp.nodes.models import Node
from webapp.quotas import queries as quotas
from webapp.quotas.models import Quota

Browser = Callable[[User], Client]
PASSWORD = "8 brass lanterns"


@pytest.fixture
def root(cast: Cast, browser: Browser) -> Client:
    return browser(cast.admin)


def test_an_invited_person_sets_a_password_and_signs_in(root: Client) -> None:
    form = {
        "username": "dave",
        "full_name": "Dave Bell",
        "email": "dave@example.org",
        "team": "vision",
        "role": "lead",
    }
    answer = root.post("/manage/users/invite/", form)
    link = re.search(r'id="link">https?://[^/<]+([^<]+)<', answer.content.decode())
    assert link is not None
    assert "no-store" in answer["Cache-Control"]
    assert link[1] not in root.get("/manage/users/").content.decode()

    stranger = Client()
    page = stranger.get(link[1])
    assert "For dave." in page.content.decode()
    passwords = {"new_password1": PASSWORD, "new_password2": PASSWORD}
    stranger.post(link[1], passwords)
    assert stranger.post("/login/", {"username": "dave", "password": PASSWORD}).status_code == 302
    assert actor_of(User.objects.get(username="dave")).roles == {"vision": Role.LEAD}
    used = stranger.get(link[1])
    assert used.status_code == 404
    assert "This link is not valid" in used.content.decode()


def test_two_different_new_passwords_are_refused_at_the_link(root: Client) -> None:
    page = root.post("/manage/users/invite/", {"username": "dave"}).content.decode()
    link = re.search(r'id="link">https?://[^/<]+([^<]+)<', page)
    assert link is not None
    answer = Client().post(link[1], {"new_password1": PASSWORD, "new_password2": "other"})
    assert answer.status_code == 422
    assert "password fields didn’t match" in answer.content.decode()


def test_a_refused_invitation_keeps_what_was_typed(root: Client) -> None:
    answer = root.post("/manage/users/invite/", {"username": "alice", "full_name": "Alice Again"})
    assert answer.status_code == 409
    page = answer.content.decode()
    assert "User alice exists already" in page
    assert 'value="Alice Again"' in page


def test_an_invitation_into_no_team_that_there_is_makes_no_account(root: Client) -> None:
    answer = root.post("/manage/users/invite/", {"username": "dave", "team": "none"})
    assert answer.status_code == 404
    assert not User.objects.filter(username="dave").exists()


def test_users_are_listed_with_their_teams_and_found(root: Client) -> None:
    page = root.get("/manage/users/?q=lena").content.decode()
    assert "1 user" in page
    assert '<a href="/teams/vision/">vision</a>' in page
    assert "bob" not in page
    assert "No user matches" in root.get("/manage/users/?q=nobody&state=invited").content.decode()


def test_a_person_is_deactivated_and_let_in_again(root: Client) -> None:
    page = root.post("/manage/users/bob/deactivate/", follow=True).content.decode()
    assert "bob is deactivated." in page
    assert "Running and pending jobs go on" in page
    assert not User.objects.get(username="bob").is_active
    page = root.post("/manage/users/bob/reactivate/").content.decode()
    assert "Set-password link for bob." in page
    assert User.objects.get(username="bob").is_active


def test_the_last_admin_cannot_be_taken_away_on_the_page(root: Client) -> None:
    for verb in ("deactivate", "admin"):
        answer = root.post(f"/manage/users/root/{verb}/")
        assert answer.status_code == 400
        assert "root is the only platform admin" in answer.content.decode()
    root.post("/manage/users/lena/admin/", {"admin": "true"})
    assert User.objects.get(username="lena").is_superuser


def test_nobody_is_managed_who_does_not_exist(root: Client) -> None:
    answer = root.post("/manage/users/nobody/deactivate/")
    assert answer.status_code == 404
    assert "There is no user nobody" in answer.content.decode()


def test_forty_users_take_no_more_queries_than_one(
    root: Client, vision: Team, django_assert_max_num_queries: Callable[..., object]
) -> None:
    for number in range(40):
        vision.people.add(
            User.objects.create(username=f"user-{number}"), through_defaults={"role": Role.VIEWER}
        )
    with django_assert_max_num_queries(13):  # type: ignore[attr-defined]
        assert "46 users" in root.get("/manage/users/").content.decode()


def test_a_team_is_created_renamed_moved_archived_and_restored(root: Client) -> None:
    Department.objects.create(slug="research", name="Research")
    root.post("/manage/teams/create/", {"slug": "robots", "name": "Robots", "weight": "1", "department": ""})
    change = {"name": "Robotics", "weight": "3", "department": "research"}
    root.post("/manage/teams/robots/change/", change)
    team = Team.objects.get(slug="robots")
    assert (team.name, team.weight, team.department_id) == ("Robotics", 3, "research")
    page = root.post("/manage/teams/robots/archive/", follow=True).content.decode()
    assert "Team robots is archived." in page
    assert "/manage/teams/robots/restore/" in page
    root.post("/manage/teams/robots/restore/")
    assert Team.objects.get(slug="robots").archived_ms is None


def test_a_team_with_running_work_is_not_archived_and_the_page_names_it(cast: Cast, root: Client) -> None:
    world = build(cast)
    answer = root.post("/manage/teams/vision/archive/")
    assert answer.status_code == 409
    assert f"Team vision still has bytelm ({world.job})" in answer.content.decode()


@pytest.mark.parametrize(
    ("form", "sentence"),
    [
        ({"slug": "vision", "name": "Again", "weight": "1"}, "Team vision exists already"),
        ({"slug": "no spaces", "name": "No", "weight": "1"}, "Short name: Enter a valid"),
        ({"slug": "robots", "name": "", "weight": "1"}, "Name is missing."),
        ({"slug": "robots", "name": "R", "weight": "0"}, "a weight is a whole number from 1 to 1,000,000"),
        ({"slug": "robots", "name": "R", "weight": "1", "department": "none"}, "There is no department none"),
    ],
)
def test_a_team_that_cannot_be_is_refused_with_the_reason(
    root: Client, form: dict[str, str], sentence: str
) -> None:
    answer = root.post("/manage/teams/create/", form)
    assert answer.status_code in (400, 404, 409)
    assert sentence in answer.content.decode()


def test_departments_stand_as_a_tree_with_their_part(root: Client) -> None:
    for slug, weight, parent in (("research", 3, ""), ("product", 1, ""), ("language", 1, "research")):
        form = {"slug": slug, "name": slug.title(), "weight": str(weight), "parent": parent}
        root.post("/manage/departments/create/", form)
    Team.objects.update(department="language")
    page = root.get("/manage/departments/").content.decode()
    product, research, language = (
        page.index(f"department-{slug}") for slug in ("product", "research", "language")
    )
    assert product < research < language
    assert "75 %" in page
    assert 'class="in-1" data-key="department-language"' in page
    root.post("/manage/departments/research/change/", {"name": "Science", "weight": "3", "parent": ""})
    assert Department.objects.get(slug="research").name == "Science"
    assert root.post("/manage/departments/research/delete/").status_code == 409
    root.post("/manage/departments/product/delete/")
    assert not Department.objects.filter(slug="product").exists()


def test_a_price_is_set_with_its_history(root: Client) -> None:
    for dollars in ("1.2", "1.35"):
        root.post("/manage/prices/set/", {"gpu_type": "h100", "dollars": dollars})
    assert quotas.prices() == {"h100": 1_350_000}
    page = root.get("/manage/prices/").content.decode()
    assert "$1.20 → $1.35" in page
    assert page.count("root") >= 2


@pytest.mark.parametrize("dollars", ["", "free", "-1", "1e9"])
def test_a_price_that_is_none_is_refused(root: Client, dollars: str) -> None:
    answer = root.post("/manage/prices/set/", {"gpu_type": "h100", "dollars": dollars})
    assert answer.status_code == 400
    assert "Price" in answer.content.decode()
    assert quotas.prices() == {}


def test_a_gpu_type_nobody_priced_costs_nothing_and_is_listed(
    root: Client, node: Callable[..., Node]
) -> None:
    node(slots=4)
    assert 'data-key="price-cpu"' in root.get("/manage/prices/").content.decode()


def test_the_quotas_of_all_teams_stand_in_one_table(
    root: Client, vision: Team, nlp: Team, quota: Callable[..., Quota], node: Callable[..., Node]
) -> None:
    node(slots=4)
    quota(vision)
    quota(nlp, guaranteed=2, maximum=4)
    page = root.get("/manage/quotas/").content.decode()
    assert "6 of 4 slots guaranteed, 0 in use" in page
    assert page.index('data-key="cpu-nlp"') < page.index('data-key="cpu-vision"')


@pytest.mark.parametrize("page", ["users", "teams", "departments", "prices", "quotas"])
def test_every_page_links_the_emergency_door(root: Client, page: str) -> None:
    assert 'href="/admin/"' in root.get(f"/manage/{page}/").content.decode()


def test_an_archived_team_stays_readable_for_its_members(cast: Cast, root: Client, browser: Browser) -> None:
    root.post("/manage/teams/vision/archive/")
    assert actor_of(cast.lead).roles == {"vision": Role.VIEWER}
    assert browser(cast.lead).get("/teams/vision/").status_code == 200
