import re
from collections.abc import Callable

from django.test import Client

from tests.webapp.conftest import Cast
from webapp.accounts.models import ApiToken, User

Browser = Callable[[User], Client]


def test_a_token_is_shown_once(cast: Cast, browser: Browser) -> None:
    client = browser(cast.owner)
    answer = client.post("/settings/tokens/", {"name": "laptop", "team": "vision", "days": "30"})
    shown = re.search(r'id="new-token">(tm_[^<]+)<', answer.content.decode())
    assert shown is not None
    assert "no-store" in answer["Cache-Control"]
    again = client.get("/settings/").content.decode()
    assert shown[1] not in again
    assert "laptop" in again


def test_a_token_for_too_long_is_refused_on_the_page(cast: Cast, browser: Browser) -> None:
    answer = browser(cast.owner).post(
        "/settings/tokens/", {"name": "laptop", "team": "vision", "days": "9999"}
    )
    assert answer.status_code == 422
    assert "less than or equal to 365" in answer.content.decode()
    assert not ApiToken.objects.exists()


def test_a_revoked_token_leaves_the_list(cast: Cast, browser: Browser) -> None:
    client = browser(cast.owner)
    client.post("/settings/tokens/", {"name": "laptop", "team": "vision", "days": "30"})
    answer = client.post(f"/settings/tokens/{ApiToken.objects.get().pk}/revoke/", follow=True)
    assert "Token revoked." in answer.content.decode()
    assert "No tokens yet." in answer.content.decode()


def test_a_changed_password_keeps_this_session_and_ends_the_others(cast: Cast, browser: Browser) -> None:
    here = Client()
    here.post("/login/", {"username": "alice", "password": "password of alice"})
    elsewhere = browser(cast.owner)
    new = {"new_password1": "8 brass lanterns", "new_password2": "8 brass lanterns"}
    answer = here.post("/settings/password/", {"old_password": "password of alice", **new})
    assert answer.status_code == 302
    assert here.get("/settings/").status_code == 200
    assert elsewhere.get("/settings/").status_code == 302


def test_a_wrong_old_password_is_told_on_the_page(cast: Cast, browser: Browser) -> None:
    new = {"new_password1": "8 brass lanterns", "new_password2": "8 brass lanterns"}
    answer = browser(cast.owner).post("/settings/password/", {"old_password": "wrong", **new})
    assert answer.status_code == 422
    assert "Your old password was entered incorrectly" in answer.content.decode()


def test_the_profile_is_kept(cast: Cast, browser: Browser) -> None:
    client = browser(cast.owner)
    client.post(
        "/settings/profile/", {"first_name": "Alice", "last_name": "Ng", "email": "alice@example.org"}
    )
    assert User.objects.get(username="alice").get_full_name() == "Alice Ng"
    refused = client.post("/settings/profile/", {"email": "not an address"})
    assert refused.status_code == 422
