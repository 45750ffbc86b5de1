import re
from collections.abc import Callable

import pytest
from django.test import Client

from tests.webapp.conftest import Cast
from webapp.accounts import attempts
from webapp.accounts.models import User

Browser = Callable[[User], Client]


def sign_in(client: Client, username: str, password: str, **kwargs: str) -> int:
    return client.post("/login/", {"username": username, "password": password}, **kwargs).status_code


def test_a_good_password_opens_the_platform(cast: Cast) -> None:
    client = Client()
    answer = client.post(
        "/login/", {"username": "alice", "password": "password of alice", "next": "/settings/"}
    )
    assert (answer.status_code, answer["Location"]) == (302, "/settings/")
    assert client.get("/settings/").status_code == 200


def test_a_wrong_password_and_an_unknown_name_are_told_alike(cast: Cast) -> None:
    wrong = Client().post("/login/", {"username": "alice", "password": "guess"})
    unknown = Client().post("/login/", {"username": "alicia", "password": "guess"})
    told = [re.findall(r'role="alert">(.+?)<', answer.content.decode()) for answer in (wrong, unknown)]
    assert wrong.status_code == unknown.status_code == 422
    assert told[0]
    assert told[0] == told[1]


@pytest.mark.parametrize("onward", ["https://evil.example/", "//evil.example/", "javascript:alert(1)"])
def test_signing_in_leads_nowhere_else(cast: Cast, onward: str) -> None:
    answer = Client().post("/login/", {"username": "alice", "password": "password of alice", "next": onward})
    assert answer["Location"] == "/"


def test_a_guesser_is_stopped_after_ten_failures_even_with_the_right_password(cast: Cast) -> None:
    client = Client()
    assert [sign_in(client, "alice", "guess") for _ in range(10)] == [422] * 10
    answer = client.post("/login/", {"username": "Alice", "password": "password of alice"})
    assert answer.status_code == 429
    assert "10 failed logins as Alice in 10 minutes; try again in 10 minutes" in answer.content.decode()


def test_the_guesser_blocks_neither_other_people_nor_other_places(cast: Cast) -> None:
    for _ in range(attempts.LIMIT + 1):
        sign_in(Client(), "alice", "guess")
    assert sign_in(Client(), "bob", "password of bob") == 302
    assert sign_in(Client(), "alice", "password of alice", REMOTE_ADDR="10.0.0.9") == 302


def test_a_good_password_forgets_the_failures_before_it(cast: Cast) -> None:
    for _ in range(2):
        for _ in range(attempts.LIMIT - 1):
            sign_in(Client(), "alice", "guess")
        assert sign_in(Client(), "alice", "password of alice") == 302


def test_pages_send_strangers_to_the_login_and_back(cast: Cast) -> None:
    answer = Client().get("/teams/vision/")
    assert (answer.status_code, answer["Location"]) == (302, "/login/?next=/teams/vision/")


def test_signing_out_needs_a_post(cast: Cast, browser: Browser) -> None:
    client = browser(cast.owner)
    assert client.get("/logout/").status_code == 405
    assert client.post("/logout/")["Location"] == "/login/"
    assert client.get("/settings/").status_code == 302
