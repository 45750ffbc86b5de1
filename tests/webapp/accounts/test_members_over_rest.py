"""Who belongs to a team, over REST: the same verbs as on its page, with the same refusals."""

from collections.abc import Callable

import pytest
from rest_framework.test import APIClient

from tests.support.rivals import rival
from tests.webapp.conftest import Cast
from webapp.accounts import services
from webapp.accounts.models import Membership, Role, Team, User
from webapp.accounts.permissions import SYSTEM
from webapp.events.models import Event

MEMBERS = "/api/v1/teams/vision/members"
Api = Callable[..., APIClient]


@pytest.fixture
def lead(cast: Cast, api: Api) -> APIClient:
    return api(cast.lead)


def roles(client: APIClient) -> dict[str, str]:
    return {one["username"]: one["role"] for one in client.get(MEMBERS).json()["results"]}


def test_a_lead_brings_somebody_in_gives_another_role_and_takes_them_out(cast: Cast, lead: APIClient) -> None:
    before = roles(lead)
    assert before == {"lena": "lead", "alice": "member", "bob": "member", "vera": "viewer"}
    made = lead.put(f"{MEMBERS}/carol", {"role": "viewer"}, format="json")
    assert (made.status_code, made.json()["role"]) == (200, "viewer")
    assert lead.put(f"{MEMBERS}/carol", {"role": "member"}, format="json").json()["role"] == "member"
    assert lead.put(f"{MEMBERS}/carol", {"role": "member"}, format="json").status_code == 200, (
        "again is no harm"
    )
    assert roles(lead) == {**before, "carol": "member"}
    assert lead.delete(f"{MEMBERS}/carol").status_code == 204
    assert roles(lead) == before
    told = Event.objects.filter(subject_kind="team", data__user="carol", team="vision").order_by("id")
    assert [(event.kind, event.actor) for event in told] == [
        ("MemberAdded", "user:lena"), ("RoleChanged", "user:lena"), ("MemberRemoved", "user:lena"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "body", "status", "why"),
    [
        ("nobody", {"role": "member"}, 404, "There is no user nobody"),
        ("carol", {"role": "king"}, 400, '"king" is not a valid choice'),
        ("carol", {}, 400, "required"),
        ("carol", {"role": "member", "boss": True}, 400, "there is no such field; use role"),
        ("lena", {"role": "member"}, 400, "lena is the only lead of vision; make somebody else a lead first"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(
    lead: APIClient, path: str, body: dict[str, object], status: int, why: str
) -> None:
    answer = lead.put(f"{MEMBERS}/{path}", body, format="json")
    assert (answer.status_code, why in str(answer.json())) == (status, True), answer.json()


def test_the_last_lead_is_not_taken_out_and_who_is_not_in_it_neither(lead: APIClient) -> None:
    assert "only lead" in lead.delete(f"{MEMBERS}/lena").json()["detail"]
    assert lead.delete(f"{MEMBERS}/carol").status_code == 404


def test_others_change_nobody(cast: Cast, api: Api, admin_api: Callable[[User], APIClient]) -> None:
    role = {"role": "viewer"}
    for who, code in ((api(cast.member), 403), (api(cast.owner), 403), (api(cast.outsider, "nlp"), 404)):
        assert who.put(f"{MEMBERS}/bob", role, format="json").status_code == code
        assert who.delete(f"{MEMBERS}/bob").status_code == code
    assert Membership.objects.get(team="vision", user=cast.member).role == Role.MEMBER
    admin = admin_api(cast.admin)
    assert admin.put(f"{MEMBERS}/bob", role, format="json").status_code == 200
    elsewhere = "/api/v1/teams/nowhere/members"
    assert admin.get(elsewhere).status_code == 404
    assert admin.put(f"{elsewhere}/bob", role, format="json").status_code == 404
    assert admin.delete(f"{elsewhere}/bob").status_code == 404


def test_two_leads_do_not_leave_at_once(vision: Team, cast: Cast, transactional_db: None) -> None:
    services.set_role(SYSTEM, "vision", "bob", Role.LEAD)
    outcome: list[str] = []
    with rival(lambda: services.remove_member(SYSTEM, "vision", "bob"), outcome) as begins:
        services.remove_member(SYSTEM, "vision", "lena")
        begins()
    assert outcome == ["request_invalid"]
