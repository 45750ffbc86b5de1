import pytest
from django.test import Client

from tests.webapp.jobs.test_pages import FORM
from webapp.accounts.models import User


@pytest.fixture
def fresh(db: None) -> Client:
    """A platform that has nothing but its first admin."""
    client = Client()
    client.force_login(User.objects.create_superuser("root", password="password of root"))
    return client


def test_before_there_is_a_team_the_form_says_so(fresh: Client) -> None:
    page = fresh.get("/jobs/submit/")
    assert (page.status_code, "There is no team yet" in page.content.decode()) == (200, True)


def test_before_there_is_a_team_the_check_still_answers(fresh: Client) -> None:
    assert fresh.post("/jobs/check/?block=check", {**FORM, "team": ""}).status_code == 200
