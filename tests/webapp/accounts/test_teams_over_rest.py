"""Departments and teams over REST: what an operator's program may change, what it is refused, and who sees what."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from platform_core.errors import TrainmasterError
from tests.support.rivals import rival
from tests.webapp.conftest import Cast
from webapp.accounts import queries, services
from webapp.accounts.models import Department, Team, User
from webapp.accounts.permissions import SYSTEM
from webapp.events.models import Event

DEPARTMENTS, TEAMS = "/api/v1/departments", "/api/v1/teams"
Api = Callable[..., APIClient]


@pytest.fixture
def operator(cast: Cast, admin_api: Callable[[User], APIClient]) -> APIClient:
    return admin_api(cast.admin)


@pytest.fixture
def research(operator: APIClient) -> None:
    """Research has vision and, in its department language, nlp; product is empty."""
    for slug, name, weight, parent in (
        ("research", "Research", 3, None),
        ("language", "Language science", 1, "research"),
        ("product", "Product", 1, None),
    ):
        body = {"slug": slug, "name": name, "weight": weight, "parent": parent}
        assert operator.post(DEPARTMENTS, body, format="json").status_code == 201
    for team, department in (("vision", "research"), ("nlp", "language")):
        answer = operator.patch(f"{TEAMS}/{team}", {"department": department}, format="json")
        assert answer.status_code == 200


def detail(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["detail"]


def slugs(answer: Any) -> list[str]:
    return [each["slug"] for each in answer.json()["results"]]


def test_a_department_is_made_with_weight_1_at_the_top_unless_told(operator: APIClient) -> None:
    answer = operator.post(DEPARTMENTS, {"slug": "research", "name": "Research"}, format="json")
    assert answer.status_code == 201
    assert answer.json() == {
        "slug": "research", "name": "Research", "weight": 1, "parent": None, "teams": [],
    }  # fmt: skip
    event = Event.objects.get(kind="DepartmentAdded")
    assert (event.subject_id, event.actor) == ("research", "user:root")


def test_what_a_change_leaves_out_stays(research: None, operator: APIClient) -> None:
    answer = operator.patch(f"{DEPARTMENTS}/language", {"weight": 4}, format="json")
    assert answer.json() == {
        "slug": "language", "name": "Language science", "weight": 4, "parent": "research", "teams": ["nlp"],
    }  # fmt: skip
    moved = operator.patch(f"{DEPARTMENTS}/language", {"parent": None}, format="json")
    assert (moved.json()["weight"], moved.json()["parent"]) == (4, None)
    event = Event.objects.filter(kind="DepartmentChanged").latest("id")
    assert event.cause == "Language science, weight 4, in no department"
    assert (event.data["before"]["parent_id"], event.data["after"]["parent_id"]) == ("research", None)


def test_a_team_moves_and_is_weighed_and_the_audit_log_tells(research: None, operator: APIClient) -> None:
    answer = operator.patch(f"{TEAMS}/nlp", {"weight": 5, "department": "product"}, format="json")
    told = {"slug": "nlp", "name": "Language", "weight": 5, "department": "product"}
    assert answer.json() == operator.get(f"{TEAMS}/nlp").json() == told
    event = Event.objects.filter(kind="TeamChanged", subject_id="nlp").latest("id")
    assert (event.actor, event.team) == ("user:root", "nlp")
    assert event.data["before"] == {"name": "Language", "weight": 1, "department": "language"}
    out = operator.patch(f"{TEAMS}/nlp", {"department": None, "name": "NLP"}, format="json")
    assert out.json() == {"slug": "nlp", "name": "NLP", "weight": 5, "department": None}


def test_what_changes_nothing_leaves_no_event(research: None, operator: APIClient) -> None:
    before = Event.objects.count()
    for path, same in (
        (f"{TEAMS}/vision", {"weight": 1, "department": "research"}),
        (f"{DEPARTMENTS}/research", {"name": "Research"}),
    ):
        assert operator.patch(path, same, format="json").status_code == 200
    assert Event.objects.count() == before


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("departments/research", {"parent": "language"}, 400,
         "a department cannot be within itself: research in language in research"),
        ("departments/research", {"parent": "research"}, 400, "research in research"),
        ("departments/research", {"parent": "arts"}, 404,
         "There is no department arts; make it first, or give none"),
        ("departments/arts", {"weight": 2}, 404, "There is no department arts"),
        ("departments/research", {"weight": 0}, 400,
         "The department research is not valid: a weight is a whole number from 1 to 1,000,000, not 0"),
        ("departments/research", {"weight": -3}, 400, "1,000,000, not -3"),
        ("departments/research", {"weight": 10**40}, 400, "1,000,000, not 1000"),
        ("departments/research", {"weight": "heavy"}, 400, "weight: A valid integer is required."),
        ("departments/research", {"wieght": 3}, 400,
         "The field 'wieght' is not valid: there is no such field; use name, weight, parent"),
        ("departments/research", {"slug": "search"}, 400, "The field 'slug' is not valid"),
        ("departments/research", {"name": ""}, 400, "name: This field may not be blank."),
        ("teams/vision", {"department": "arts"}, 404,
         "There is no department arts; make it first, or give none"),
        ("teams/tulips", {"weight": 2}, 404, "There is no team tulips you may see"),
        ("teams/vision", {"weight": 0}, 400,
         "The team vision is not valid: a weight is a whole number from 1 to 1,000,000, not 0"),
    ],
)  # fmt: skip
def test_a_change_that_cannot_be_is_refused_with_what_is_wrong(
    research: None, operator: APIClient, path: str, body: dict[str, Any], status: int, words: str
) -> None:
    before = (queries.departments(), queries.teams())
    answer = operator.patch(f"/api/v1/{path}", body, format="json")
    assert answer.status_code == status
    assert words in answer.json()["detail"]
    assert (queries.departments(), queries.teams()) == before


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"slug": "research", "name": "Again"}, 409,
         "Department research exists already; choose another name"),
        ({"slug": "R&D", "name": "Research"}, 400, "The department R&D is not valid"),
        ({"slug": "arts", "name": "Arts", "weight": 0}, 400, "not 0"),
        ({"slug": "arts", "name": "Arts", "parent": "humanities"}, 404,
         "There is no department humanities; make it first, or give none"),
        ({"slug": "arts", "name": "Arts", "parent": "arts"}, 404, "There is no department arts"),
        ({"name": "Arts"}, 400, "slug: This field is required."),
    ],
)  # fmt: skip
def test_a_new_one_that_cannot_be_is_refused_with_what_is_wrong(
    research: None, operator: APIClient, body: dict[str, Any], status: int, words: str
) -> None:
    answer = operator.post(DEPARTMENTS, body, format="json")
    assert answer.status_code == status
    assert words in answer.json()["detail"]
    assert len(queries.departments()) == 3


def test_a_department_is_deleted_once_nothing_stands_in_it(research: None, operator: APIClient) -> None:
    assert detail(operator.delete(f"{DEPARTMENTS}/research")) == (
        409, "Department research still has team vision, department language; move them elsewhere first",
    )  # fmt: skip
    operator.patch(f"{TEAMS}/vision", {"department": None}, format="json")
    operator.patch(f"{DEPARTMENTS}/language", {"parent": "product"}, format="json")
    assert operator.delete(f"{DEPARTMENTS}/research").status_code == 204
    assert operator.get(f"{DEPARTMENTS}/research").status_code == 404
    assert operator.delete(f"{DEPARTMENTS}/research").status_code == 404
    event = Event.objects.get(kind="DepartmentDeleted")
    assert event.data["before"] == {"name": "Research", "weight": 3, "parent_id": None}


def test_others_see_the_departments_above_their_own_teams_only(
    research: None, cast: Cast, api: Api, operator: APIClient
) -> None:
    member, outsider = api(cast.viewer), api(cast.outsider, "nlp")
    assert slugs(operator.get(DEPARTMENTS)) == ["language", "product", "research"]
    assert slugs(member.get(DEPARTMENTS)) == ["research"]
    assert slugs(outsider.get(DEPARTMENTS)) == ["language", "research"]
    assert outsider.get(f"{DEPARTMENTS}/research").json()["teams"] == []  # vision is not theirs to see
    assert operator.get(f"{DEPARTMENTS}/research").json()["teams"] == ["vision"]
    assert detail(member.get(f"{DEPARTMENTS}/product")) == (404, "There is no department product you may see")
    assert (slugs(member.get(TEAMS)), slugs(operator.get(TEAMS))) == (["vision"], ["nlp", "vision"])


@pytest.mark.parametrize("weight", [0, -1])
def test_a_team_is_not_made_without_weight(cast: Cast, weight: int) -> None:
    with pytest.raises(TrainmasterError, match=f"The team arts is not valid: .* not {weight}$"):
        services.create_team(SYSTEM, "arts", "Arts", weight)
    assert not Team.objects.filter(slug="arts").exists()


def test_a_team_does_not_move_into_a_department_that_is_being_deleted(
    research: None, transactional_db: None
) -> None:
    outcome: list[str] = []
    with rival(lambda: services.change_team(SYSTEM, "vision", department="product"), outcome) as begins:
        services.delete_department(SYSTEM, "product")
        begins()
    assert outcome == ["not_found"]
    assert not Department.objects.filter(slug="product").exists()


def test_the_teams_page_tells_its_department_and_its_weight(
    research: None, cast: Cast, browser: Callable[[User], Client]
) -> None:
    services.change_team(SYSTEM, "nlp", weight=2)
    page = browser(cast.outsider).get("/teams/nlp/").content.decode()
    assert "In Research › Language science, weight 2" in page


@pytest.mark.parametrize(("weight", "told"), [(1, False), (3, True)])
def test_a_team_in_no_department_tells_a_weight_that_is_its_own(
    cast: Cast, browser: Callable[[User], Client], weight: int, told: bool
) -> None:
    services.change_team(SYSTEM, "nlp", weight=weight)
    page = browser(cast.outsider).get("/teams/nlp/").content.decode()
    assert ("In no department, weight 3" in page) == told
