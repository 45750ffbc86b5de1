from collections.abc import Callable

import pytest
from django.test import Client

from tests.webapp.conftest import Cast
from webapp.accounts import queries
from webapp.accounts.models import Department, Role, Team, TeamSecret, User

Browser = Callable[[User], Client]


def test_a_viewer_sees_the_team_and_no_forms(cast: Cast, browser: Browser) -> None:
    client = browser(cast.viewer)
    assert "lena" in client.get("/teams/vision/members/").content.decode()
    for section in ("", "share/", "members/", "costs/", "secrets/"):
        page = client.get(f"/teams/vision/{section}").content.decode()
        assert page.partition('id="main"')[2].count('method="post"') == 0, section


def test_the_department_stands_under_the_name_and_is_not_asked_for_by_what_moves(
    cast: Cast, browser: Browser
) -> None:
    research = Department.objects.create(slug="research", name="Research", weight=2)
    Team.objects.filter(slug="vision").update(department=research)
    page = browser(cast.viewer).get("/teams/vision/").content.decode()
    assert page.index("<h1>Vision</h1>") < page.index("In Research, weight 1") < page.index('id="quota"')
    asked = {"block": "quota"}
    part = browser(cast.viewer).get("/teams/vision/", asked, headers={"HX-Request": "true"}).content.decode()
    assert 'id="quota"' in part
    assert "<h1>" not in part


def test_to_an_outsider_the_team_does_not_exist(cast: Cast, browser: Browser) -> None:
    real = browser(cast.outsider).get("/teams/vision/")
    invented = browser(cast.outsider).get("/teams/tulips/")
    assert real.status_code == invented.status_code == 404
    sentence = "There is no team {} you may see."
    assert sentence.format("vision") in real.content.decode()
    assert sentence.format("tulips") in invented.content.decode()
    assert "Vision" not in real.content.decode()


def test_an_admin_sees_a_team_without_being_in_it(cast: Cast, browser: Browser) -> None:
    assert browser(cast.admin).get("/teams/nlp/").status_code == 200


def test_a_lead_adds_a_member_on_the_page(cast: Cast, browser: Browser) -> None:
    form = {"username": "carol", "role": "viewer"}
    answer = browser(cast.lead).post("/teams/vision/members/", form, follow=True)
    assert "carol is in the team." in answer.content.decode()
    assert queries.actor_of(cast.outsider).roles["vision"] == Role.VIEWER


def test_adding_nobody_is_told_on_the_page(cast: Cast, browser: Browser) -> None:
    answer = browser(cast.lead).post("/teams/vision/members/", {"username": "nobody", "role": "member"})
    assert answer.status_code == 404
    assert "There is no user nobody" in answer.content.decode()
    assert 'id="members"' in answer.content.decode()


def test_a_lead_changes_a_role_and_removes_a_member(cast: Cast, browser: Browser) -> None:
    client = browser(cast.lead)
    client.post(f"/teams/vision/members/{cast.member.pk}/role/", {"role": "viewer"})
    assert queries.actor_of(cast.member).roles["vision"] == Role.VIEWER
    client.post(f"/teams/vision/members/{cast.member.pk}/remove/")
    assert queries.actor_of(cast.member).teams == ()


def test_people_of_other_teams_are_not_reached_by_their_number(cast: Cast, browser: Browser) -> None:
    answer = browser(cast.lead).post(f"/teams/vision/members/{cast.outsider.pk}/remove/")
    assert answer.status_code == 404
    assert queries.actor_of(cast.outsider).teams == ("nlp",)


def test_a_secret_is_set_and_deleted_on_the_page_and_never_shown(cast: Cast, browser: Browser) -> None:
    client = browser(cast.lead)
    page = client.post("/teams/vision/secrets/", {"name": "HF_TOKEN", "value": "hf_abcdef"}, follow=True)
    assert "HF_TOKEN" in page.content.decode()
    assert "hf_abcdef" not in page.content.decode()
    client.post("/teams/vision/secrets/HF_TOKEN/delete/")
    assert not TeamSecret.objects.exists()


@pytest.mark.parametrize(
    ("section", "block"),
    [("", "quota"), ("", "changes"), ("costs/", "costs"), ("members/", "members"), ("secrets/", "secrets")],
)
def test_each_part_of_the_page_comes_alone_when_htmx_asks(
    cast: Cast, browser: Browser, section: str, block: str
) -> None:
    address = f"/teams/vision/{section}?block={block}"
    part = browser(cast.lead).get(address, headers={"HX-Request": "true"})
    assert part.status_code == 200
    assert f'id="{block}"' in part.content.decode()
    assert "<html" not in part.content.decode()
