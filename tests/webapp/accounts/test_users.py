"""What platform admins do with accounts: invite, deactivate, reset a password, give and take the admin right."""

from collections.abc import Callable

import pytest
from django.test import Client

from platform_core.errors import TrainmasterError
from tests.webapp.conftest import Cast
from webapp.accounts import queries, services, tokens, users
from webapp.accounts.models import Role, User
from webapp.accounts.permissions import SYSTEM, Actor
from webapp.accounts.users import PasswordLink
from webapp.events.models import Event

ActorOf = Callable[[User], Actor]
Browser = Callable[[User], Client]
PASSWORD = "8 brass lanterns"

VERBS: dict[str, Callable[[Actor], object]] = {
    "invite": lambda actor: users.invite(actor, "dave"),
    "reset_password": lambda actor: users.reset_password(actor, "alice"),
    "deactivate": lambda actor: users.deactivate(actor, "alice"),
    "reactivate": lambda actor: users.reactivate(actor, "alice"),
    "set_admin": lambda actor: users.set_admin(actor, "alice", True),
    "archive_team": lambda actor: services.archive_team(actor, "nlp"),
    "restore_team": lambda actor: services.restore_team(actor, "nlp"),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("person", ["outsider", "viewer", "member", "lead"])
def test_only_a_platform_admin_manages_accounts(cast: Cast, actor: ActorOf, person: str, verb: str) -> None:
    with pytest.raises(TrainmasterError, match="ask a platform admin"):
        VERBS[verb](actor(getattr(cast, person)))


@pytest.mark.parametrize("verb", VERBS)
def test_a_platform_admin_manages_accounts(cast: Cast, actor: ActorOf, verb: str) -> None:
    VERBS[verb](actor(cast.admin))


def test_an_invited_person_sets_a_password_with_the_link_and_only_once(cast: Cast) -> None:
    link = users.invite(SYSTEM, "dave", full_name="Dave Bell", email="dave@example.org")
    invited = users.invited(link.uid, link.token)
    assert invited is not None
    assert invited.get_full_name() == "Dave Bell"
    users.accept(link.uid, link.token, PASSWORD)
    assert User.objects.get(username="dave").check_password(PASSWORD)
    assert users.invited(link.uid, link.token) is None
    with pytest.raises(TrainmasterError):
        users.accept(link.uid, link.token, "another 8 lanterns")


@pytest.mark.parametrize("uid", ["", "AAAA", "not base 64", "9" * 40])
def test_an_invented_link_opens_nothing(cast: Cast, uid: str) -> None:
    assert users.invited(uid, "c0ffee-0123456789abcdef") is None


def test_a_weak_password_is_refused_and_the_link_stays_valid(cast: Cast) -> None:
    link = users.invite(SYSTEM, "dave")
    with pytest.raises(TrainmasterError, match="too common"):
        users.accept(link.uid, link.token, "password")
    assert users.invited(link.uid, link.token) is not None


@pytest.mark.parametrize("name", ["", "with space", "x" * 151])
def test_a_username_that_cannot_be_is_refused_with_the_reason(cast: Cast, name: str) -> None:
    with pytest.raises(TrainmasterError) as refusal:
        users.invite(SYSTEM, name)
    assert refusal.value.code == "request_invalid"


def test_two_usernames_differ_by_more_than_capitals(cast: Cast) -> None:
    with pytest.raises(TrainmasterError) as refusal:
        users.invite(SYSTEM, "Alice")
    assert refusal.value.code == "duplicate_name"


def test_deactivating_ends_sessions_and_tokens_for_good(cast: Cast, actor: ActorOf, browser: Browser) -> None:
    here = browser(cast.owner)
    token = tokens.create_token(actor(cast.owner), "vision", "laptop", 30)
    users.deactivate(actor(cast.admin), "alice")
    assert here.get("/settings/").status_code == 302
    assert tokens.find(token.text) is None
    users.reactivate(actor(cast.admin), "alice")
    assert here.get("/settings/").status_code == 302
    assert tokens.find(token.text) is None


def test_a_reactivated_person_keeps_the_teams_and_sets_a_new_password(cast: Cast, actor: ActorOf) -> None:
    users.deactivate(actor(cast.admin), "alice")
    link = users.reactivate(actor(cast.admin), "alice")
    users.accept(link.uid, link.token, PASSWORD)
    assert actor(User.objects.get(username="alice")).roles == {"vision": Role.MEMBER}


def test_a_reset_ends_the_old_password_and_its_sessions(cast: Cast, browser: Browser) -> None:
    here = browser(cast.owner)
    link = users.reset_password(SYSTEM, "alice")
    assert not User.objects.get(username="alice").check_password("password of alice")
    assert here.get("/settings/").status_code == 302
    users.accept(link.uid, link.token, PASSWORD)


def test_a_deactivated_person_gets_no_password(cast: Cast) -> None:
    link = users.reset_password(SYSTEM, "alice")
    users.deactivate(SYSTEM, "alice")
    assert users.invited(link.uid, link.token) is None
    with pytest.raises(TrainmasterError, match="reactivate the account first"):
        users.reset_password(SYSTEM, "alice")


@pytest.mark.parametrize(
    "change", [users.deactivate, lambda actor, name: users.set_admin(actor, name, False)]
)
def test_the_last_platform_admin_stays(cast: Cast, change: Callable[[Actor, str], None]) -> None:
    with pytest.raises(TrainmasterError, match="root is the only platform admin"):
        change(SYSTEM, "root")
    users.set_admin(SYSTEM, "lena", True)
    change(SYSTEM, "root")


def test_a_deactivated_admin_does_not_count_as_one(cast: Cast) -> None:
    users.set_admin(SYSTEM, "lena", True)
    users.deactivate(SYSTEM, "lena")
    with pytest.raises(TrainmasterError, match="root is the only platform admin"):
        users.deactivate(SYSTEM, "root")


def test_each_change_of_an_account_stands_in_the_audit_log(cast: Cast, actor: ActorOf) -> None:
    root = actor(cast.admin)
    users.invite(root, "dave")
    users.set_admin(root, "dave", True)
    users.set_admin(root, "dave", False)
    users.reset_password(root, "dave")
    users.deactivate(root, "dave")
    users.reactivate(root, "dave")
    rows = Event.objects.filter(subject_kind="user", subject_id="dave").order_by("id")
    assert [(row.kind, row.actor) for row in rows] == [
        (kind, "user:root")
        for kind in (
            "UserCreated", "AdminGranted", "AdminWithdrawn", "PasswordReset", "UserDeactivated", "UserReactivated"
        )
    ]  # fmt: skip


def test_the_link_is_nowhere_in_the_audit_log(cast: Cast) -> None:
    link = users.invite(SYSTEM, "dave")
    assert isinstance(link, PasswordLink)
    assert link.token not in str(list(Event.objects.values()))


@pytest.mark.parametrize(
    ("search", "state", "usernames"),
    [
        ("", "", ["alice", "bob", "carol", "dave", "lena", "root", "vera"]),
        ("AL", "", ["alice"]),
        ("bell", "", ["dave"]),
        ("example.org", "", ["dave"]),
        ("", "invited", ["dave"]),
        ("", "deactivated", ["vera"]),
        ("", "active", ["alice", "bob", "carol", "lena", "root"]),
    ],
)
def test_accounts_are_found_by_name_address_and_state(
    cast: Cast, search: str, state: str, usernames: list[str]
) -> None:
    users.invite(SYSTEM, "dave", full_name="Dave Bell", email="d@example.org")
    users.deactivate(SYSTEM, "vera")
    found, count = queries.users(search, state)
    assert [user.username for user in found] == usernames
    assert count == len(usernames)


def test_an_archived_team_is_there_to_read(cast: Cast, actor: ActorOf) -> None:
    services.archive_team(SYSTEM, "vision")
    assert actor(cast.lead).roles == {"vision": Role.VIEWER}
    assert [team.slug for team in queries.teams()] == ["nlp"]
    assert [team.slug for team in queries.archived_teams()] == ["vision"]
    services.restore_team(SYSTEM, "vision")
    assert actor(cast.lead).roles == {"vision": Role.LEAD}


def test_a_token_of_an_archived_team_reads(cast: Cast, api: Callable[..., Client]) -> None:
    client = api(cast.lead)
    services.archive_team(SYSTEM, "vision")
    assert client.get("/api/v1/teams/vision").status_code == 200
    assert client.put("/api/v1/teams/vision/members/carol", {"role": "viewer"}).status_code == 403
