"""Whoever guesses passwords is slowed down at every door, and the people whose names are guessed are not."""

from collections.abc import Callable

import pytest
from django.conf import LazySettings
from django.core.exceptions import ImproperlyConfigured
from django.test import Client

from tests.webapp.conftest import Cast
from webapp.accounts import attempts
from webapp.accounts.models import User
from webapp.config import settings as shipped

Browser = Callable[[User], Client]
PROXY = "10.0.0.1"


def sign_in(
    client: Client, username: str, password: str, address: str = "10.9.9.9", forwarded: str = ""
) -> int:
    headers = {"HTTP_X_FORWARDED_FOR": forwarded} if forwarded else {}
    form = {"username": username, "password": password}
    return client.post("/login/", form, REMOTE_ADDR=address, **headers).status_code


def test_the_admin_has_no_login_of_its_own_at_which_to_guess(cast: Cast) -> None:
    client = Client()
    for guess in ("wrong", "password of root"):
        client.post("/admin/login/", {"username": "root", "password": guess})
        assert "_auth_user_id" not in client.session
    answer = client.get("/admin/", follow=True)
    assert answer.redirect_chain[-1][0].startswith("/login/?next=")


def test_a_person_who_is_no_admin_is_told_so_by_the_admin(cast: Cast, browser: Browser) -> None:
    answer = browser(cast.owner).get("/admin/", follow=True)
    assert answer.status_code == 403
    assert browser(cast.admin).get("/admin/login/?next=/admin/").status_code == 302


def test_changing_the_header_gives_no_new_tries(cast: Cast) -> None:
    statuses = [sign_in(Client(), "alice", "guess", forwarded=f"10.1.1.{n}") for n in range(11)]
    assert statuses == [422] * 10 + [429]


def test_behind_a_trusted_proxy_each_client_is_counted_by_itself(cast: Cast, settings: LazySettings) -> None:
    settings.TRUSTED_PROXIES = [f"{PROXY}/32", "192.168.0.0/16"]
    for n in range(11):  # what a client writes itself stands before what the proxies add
        sign_in(Client(), "alice", "guess", PROXY, forwarded=f"1.1.1.{n}, 203.0.113.7, 192.168.3.4")
    good = "password of alice"
    assert sign_in(Client(), "alice", good, PROXY, forwarded="203.0.113.7") == 429
    assert sign_in(Client(), "alice", good, PROXY, forwarded="203.0.113.8") == 302


def test_many_names_from_one_address_are_too_many_tries(cast: Cast) -> None:
    statuses = [sign_in(Client(), f"name-{n}", "guess") for n in range(attempts.ADDRESS_LIMIT + 1)]
    assert (statuses[-2], statuses[-1]) == (422, 429)
    assert sign_in(Client(), "alice", "password of alice", "10.9.9.8") == 302


def test_people_who_log_in_well_do_not_use_up_the_tries_of_their_address(cast: Cast) -> None:
    for _ in range(attempts.ADDRESS_LIMIT + 1):
        assert sign_in(Client(), "alice", "password of alice") == 302


def test_one_name_from_many_addresses_is_slowed_down(cast: Cast) -> None:
    statuses = [sign_in(Client(), "alice", "guess", f"10.2.0.{n}") for n in range(attempts.ACCOUNT_LIMIT + 1)]
    assert (statuses[-2], statuses[-1]) == (422, 429)


def test_strangers_behind_the_same_proxy_do_not_lock_a_person_out(cast: Cast) -> None:
    laptop = Client()
    assert sign_in(laptop, "alice", "password of alice", PROXY) == 302
    laptop.post("/logout/")
    for _ in range(attempts.ADDRESS_LIMIT + 1):
        sign_in(Client(), "alice", "guess", PROXY)
    assert sign_in(Client(), "alice", "password of alice", PROXY) == 429, "a browser that nobody knows"
    assert sign_in(laptop, "alice", "password of alice", PROXY) == 302


def test_a_known_browser_does_not_open_other_accounts_nor_more_than_ten_tries(cast: Cast) -> None:
    laptop = Client()
    sign_in(laptop, "alice", "password of alice")
    laptop.post("/logout/")
    assert [sign_in(laptop, "alice", "guess") for _ in range(11)] == [422] * 10 + [429]
    assert [sign_in(laptop, "bob", "guess") for _ in range(11)] == [422] * 10 + [429]


def test_the_old_password_is_not_guessed_at_the_change_of_passwords(cast: Cast, browser: Browser) -> None:
    client = browser(cast.owner)

    def change(old: str) -> int:
        form = {
            "old_password": old,
            "new_password1": "a new pass-phrase 7",
            "new_password2": "a new pass-phrase 7",
        }
        return client.post("/settings/password/", form).status_code

    assert [change("guess") for _ in range(11)] == [422] * 10 + [429]
    assert change("password of alice") == 429
    assert client.get("/admin/password_change/").status_code == 302


def test_a_proxy_that_is_no_address_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINMASTER_TRUSTED_PROXIES", "proxy.example")
    with pytest.raises(ImproperlyConfigured, match=r"proxy\.example"):
        shipped.networks("TRAINMASTER_TRUSTED_PROXIES")
