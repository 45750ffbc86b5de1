from collections.abc import Callable
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from rest_framework.test import APIClient

from platform_core.errors import TrainmasterError
from tests.webapp.conftest import Cast
from webapp.accounts import services, tokens
from webapp.accounts.models import ApiToken, Role, Scope, User
from webapp.accounts.permissions import SYSTEM, Actor
from webapp.base.identity import now_ms
from webapp.events.queries import story

ActorOf = Callable[[User], Actor]
Api = Callable[..., APIClient]


def bearer(text: str) -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {text}")
    return client


def test_a_token_says_who_and_which_team(cast: Cast, api: Api) -> None:
    assert api(cast.owner).get("/api/v1/me").json() == {
        "username": "alice",
        "admin": False,
        "teams": {"vision": "member"},
        "token_name": "tests",
        "token_team": "vision",
        "token_expires_ms": ApiToken.objects.get().expires_ms,
    }


def test_a_browser_has_no_token_to_expire(cast: Cast, browser: Callable[[User], Client]) -> None:
    me = browser(cast.owner).get("/api/v1/me").json()
    assert (me["token_name"], me["token_team"], me["token_expires_ms"]) == (None, None, None)


def test_a_token_knows_only_its_own_team(cast: Cast, api: Api) -> None:
    services.set_role(SYSTEM, "nlp", "alice", Role.LEAD)
    assert api(cast.owner, "vision").get("/api/v1/me").json()["teams"] == {"vision": "member"}


def test_an_admins_token_is_a_lead_of_its_team_and_no_admin(cast: Cast, api: Api) -> None:
    answer = api(cast.admin).get("/api/v1/me").json()
    assert (answer["admin"], answer["teams"]) == (False, {"vision": "lead"})


def test_a_demoted_person_is_demoted_in_their_tokens_too(cast: Cast, api: Api) -> None:
    client = api(cast.owner)
    services.set_role(SYSTEM, "vision", "alice", Role.VIEWER)
    assert client.get("/api/v1/me").json()["teams"] == {"vision": "viewer"}


def test_only_the_digest_is_kept(cast: Cast, actor: ActorOf) -> None:
    made = tokens.create_token(actor(cast.owner), "vision", "laptop", 30)
    row = ApiToken.objects.get()
    assert made.text.startswith(row.prefix)
    assert made.text not in str(ApiToken.objects.values())


@pytest.mark.parametrize(
    "state", ["unknown", "expired", "revoked", "of somebody deactivated", "not even a token"]
)
def test_a_dead_token_is_refused_with_a_problem_document(cast: Cast, actor: ActorOf, state: str) -> None:
    text = tokens.create_token(actor(cast.owner), "vision", "laptop", 30).text
    if state == "unknown":
        text += "x"
    elif state == "expired":
        ApiToken.objects.update(expires_ms=now_ms())
    elif state == "revoked":
        tokens.revoke_token(actor(cast.owner), ApiToken.objects.get().pk)
    elif state == "of somebody deactivated":
        User.objects.filter(username="alice").update(is_active=False)
    else:
        text = "\u00ff" * 20
    answer = bearer(text).get("/api/v1/me")
    assert answer.status_code == 401
    assert answer.json()["code"] == "not_authenticated"
    assert answer["WWW-Authenticate"].startswith("Bearer")


def test_last_use_is_noted_once_a_minute(cast: Cast, api: Api) -> None:
    client = api(cast.owner)
    client.get("/api/v1/me")
    first = ApiToken.objects.get().last_used_ms
    assert first is not None
    client.get("/api/v1/me")
    assert ApiToken.objects.get().last_used_ms == first


def test_nobody_revokes_the_token_of_another(cast: Cast, actor: ActorOf) -> None:
    made = tokens.create_token(actor(cast.owner), "vision", "laptop", 30)
    with pytest.raises(TrainmasterError) as refusal:
        tokens.revoke_token(actor(cast.lead), made.id)
    assert refusal.value.code == "not_found"
    tokens.revoke_token(actor(cast.admin), made.id)
    assert tokens.find(made.text) is None


def test_no_token_for_a_team_one_does_not_belong_to(cast: Cast, actor: ActorOf) -> None:
    with pytest.raises(TrainmasterError) as refusal:
        tokens.create_token(actor(cast.outsider), "vision", "laptop", 30)
    assert refusal.value.code == "not_found"


@pytest.mark.parametrize("days", [0, 366, -1])
def test_a_token_lives_a_day_to_a_year(cast: Cast, actor: ActorOf, days: int) -> None:
    with pytest.raises(TrainmasterError, match="1 to 365 days"):
        tokens.create_token(actor(cast.owner), "vision", "laptop", days)


@pytest.mark.parametrize("who", ["owner", "member", "viewer", "lead", "outsider"])
def test_only_an_admin_makes_a_token_of_the_scope_admin(who: str, cast: Cast, actor: ActorOf) -> None:
    with pytest.raises(TrainmasterError) as refusal:
        tokens.create_admin_token(actor(getattr(cast, who)), "operations", 1)
    assert refusal.value.code == "not_allowed"
    assert not ApiToken.objects.exists()


def test_a_token_of_the_scope_admin_is_an_admin_in_every_team(
    cast: Cast, admin_api: Callable[[User], APIClient]
) -> None:
    answer = admin_api(cast.admin).get("/api/v1/me").json()
    token = {
        "token_name": "operations",
        "token_team": None,
        "token_expires_ms": ApiToken.objects.get().expires_ms,
    }
    assert answer == {"username": "root", "admin": True, "teams": {}} | token


def test_who_is_no_admin_any_more_has_no_admins_token_either(
    cast: Cast, admin_api: Callable[[User], APIClient]
) -> None:
    client = admin_api(cast.admin)
    User.objects.filter(username="root").update(is_superuser=False)
    assert client.get("/api/v1/me").json()["admin"] is False
    assert client.get("/api/v1/training-jobs").json()["results"] == []


def test_an_admins_token_lives_a_month_at_most(cast: Cast, actor: ActorOf) -> None:
    with pytest.raises(TrainmasterError, match="an admin token is valid for 1 to 30 days"):
        tokens.create_admin_token(actor(cast.admin), "operations", 31)


@pytest.mark.parametrize("scope", [Scope.TEAM, Scope.ADMIN])
def test_no_token_makes_tokens(cast: Cast, scope: Scope) -> None:
    by_token = Actor("root", {"vision": Role.LEAD}, is_admin=scope is Scope.ADMIN, by_token=True)
    with pytest.raises(TrainmasterError, match="A token cannot make tokens"):
        tokens.create_token(by_token, "vision", "another", 1)
    if scope is Scope.ADMIN:
        with pytest.raises(TrainmasterError, match="A token cannot make tokens"):
            tokens.create_admin_token(by_token, "another", 1)


def test_the_audit_log_says_that_it_opens_the_platform(cast: Cast, actor: ActorOf) -> None:
    made = tokens.create_admin_token(actor(cast.admin), "operations", 7)
    tokens.revoke_token(actor(cast.admin), made.id)
    told = [(event.kind, event.actor, event.team, event.data["scope"]) for event in story(f"token:{made.id}")]
    assert told == [
        ("AdminTokenCreated", "user:root", "", "admin"),
        ("TokenRevoked", "user:root", "", "admin"),
    ]


def test_an_admin_makes_one_on_the_page_and_sees_what_it_is(
    cast: Cast, browser: Callable[[User], Client]
) -> None:
    form = {"name": "operations", "scope": "admin", "days": 7}
    page = browser(cast.admin).post("/settings/tokens/", form).content.decode()
    assert "Your new token." in page
    assert '<div class="under">the whole platform</div>' in page
    assert ApiToken.objects.get().team is None


def test_nobody_else_is_offered_one_or_gets_one_by_asking(
    cast: Cast, browser: Callable[[User], Client]
) -> None:
    assert 'name="scope"' not in browser(cast.lead).get("/settings/").content.decode()
    form = {"name": "operations", "scope": "admin", "team": "vision", "days": 7}
    assert browser(cast.lead).post("/settings/tokens/", form).status_code == 403
    assert not ApiToken.objects.exists()


def test_an_operator_gets_one_at_the_command_line(cast: Cast) -> None:
    out = StringIO()
    call_command("token", "root", "--admin", "--days", "2", stdout=out)
    assert bearer(out.getvalue().strip()).get("/api/v1/me").json()["admin"] is True
    with pytest.raises(CommandError, match="platform admin"):
        call_command("token", "alice", "--admin")


def test_a_session_asks_the_api_without_a_token(cast: Cast, browser: Callable[[User], APIClient]) -> None:
    answer = browser(cast.admin).get("/api/v1/me").json()
    assert (answer["username"], answer["admin"], answer["token_team"]) == ("root", True, None)


def test_nobody_gets_nothing(cast: Cast) -> None:
    assert APIClient().get("/api/v1/me").status_code == 401
