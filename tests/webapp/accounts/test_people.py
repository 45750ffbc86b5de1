from collections.abc import Callable

import pytest

from platform_core.errors import TrainmasterError
from tests.webapp.conftest import Cast
from webapp.accounts import queries, services, tokens
from webapp.accounts.models import ApiToken, Role, User
from webapp.accounts.permissions import SYSTEM, Actor
from webapp.events.models import Event

ActorOf = Callable[[User], Actor]


def test_a_lead_brings_a_person_into_the_team_and_the_audit_log_tells(cast: Cast, actor: ActorOf) -> None:
    services.set_role(actor(cast.lead), "vision", "carol", Role.VIEWER)
    assert actor(cast.outsider).roles["vision"] == Role.VIEWER
    event = Event.objects.get(kind="MemberAdded", data__user="carol", team="vision")
    assert (event.actor, event.data["after"]) == ("user:lena", "viewer")


def test_a_changed_role_is_told_with_before_and_after(cast: Cast, actor: ActorOf) -> None:
    services.set_role(actor(cast.lead), "vision", "bob", Role.LEAD)
    event = Event.objects.get(kind="RoleChanged")
    assert (event.data["before"], event.data["after"]) == ("member", "lead")


def test_giving_somebody_the_role_they_have_is_no_event(cast: Cast, actor: ActorOf) -> None:
    services.set_role(actor(cast.lead), "vision", "bob", Role.MEMBER)
    assert not Event.objects.filter(kind="RoleChanged").exists()


def test_a_member_cannot_add_anybody(cast: Cast, actor: ActorOf) -> None:
    with pytest.raises(TrainmasterError) as refusal:
        services.set_role(actor(cast.member), "vision", "carol", Role.VIEWER)
    assert refusal.value.code == "not_allowed"


@pytest.mark.parametrize("change", ["demote", "remove"])
def test_the_last_lead_of_a_team_stays(cast: Cast, actor: ActorOf, change: str) -> None:
    changes = {
        "demote": lambda: services.set_role(actor(cast.lead), "vision", "lena", Role.MEMBER),
        "remove": lambda: services.remove_member(actor(cast.admin), "vision", "lena"),
    }
    with pytest.raises(TrainmasterError, match="lena is the only lead of vision"):
        changes[change]()
    assert actor(cast.lead).roles["vision"] == Role.LEAD


def test_a_lead_may_go_when_another_one_is_there(cast: Cast, actor: ActorOf) -> None:
    services.set_role(actor(cast.lead), "vision", "bob", Role.LEAD)
    services.remove_member(actor(cast.lead), "vision", "lena")
    assert [member.username for member in queries.members("vision")] == ["bob", "alice", "vera"]


def test_removing_a_member_ends_their_tokens_of_that_team(cast: Cast, actor: ActorOf) -> None:
    services.set_role(SYSTEM, "nlp", "bob", Role.MEMBER)
    here = tokens.create_token(actor(cast.member), "vision", "laptop", 30)
    elsewhere = tokens.create_token(actor(cast.member), "nlp", "laptop", 30)
    services.remove_member(actor(cast.lead), "vision", "bob")
    assert tokens.find(here.text) is None
    assert tokens.find(elsewhere.text) is not None


def test_a_username_is_taken_once(cast: Cast) -> None:
    with pytest.raises(TrainmasterError) as refusal:
        services.create_user(SYSTEM, "alice", "another password")
    assert refusal.value.code == "duplicate_name"


def test_only_an_admin_makes_people_and_teams(cast: Cast, actor: ActorOf) -> None:
    for make in (services.create_user, services.create_team):
        with pytest.raises(TrainmasterError, match="ask a platform admin"):
            make(actor(cast.lead), "dave", "a long password")


def test_a_weak_new_password_is_refused_with_the_reason(cast: Cast, actor: ActorOf) -> None:
    with pytest.raises(TrainmasterError, match="too common"):
        services.change_password(actor(cast.owner), "alice", "password")


def test_nobody_changes_another_persons_password_but_an_admin(cast: Cast, actor: ActorOf) -> None:
    with pytest.raises(TrainmasterError):
        services.change_password(actor(cast.lead), "alice", "8 brass lanterns")
    services.change_password(actor(cast.admin), "alice", "8 brass lanterns")
    assert User.objects.get(username="alice").check_password("8 brass lanterns")


def test_the_actor_of_a_person_carries_every_role(cast: Cast, actor: ActorOf) -> None:
    services.set_role(SYSTEM, "nlp", "alice", Role.VIEWER)
    assert dict(actor(cast.owner).roles) == {"vision": Role.MEMBER, "nlp": Role.VIEWER}
    assert actor(cast.owner).sees == ["nlp", "vision"]
    assert actor(cast.admin).sees is None


def test_a_deactivated_person_is_nobody(cast: Cast, actor: ActorOf) -> None:
    User.objects.filter(username="alice").update(is_active=False)
    with pytest.raises(TrainmasterError) as refusal:
        actor(User.objects.get(username="alice"))
    assert refusal.value.code == "not_authenticated"


def test_tokens_and_people_are_counted_in_the_audit_log(cast: Cast, actor: ActorOf) -> None:
    made = tokens.create_token(actor(cast.owner), "vision", "laptop", 30)
    tokens.revoke_token(actor(cast.owner), made.id)
    kinds = Event.objects.filter(subject_kind="token").order_by("id").values_list("kind", flat=True)
    assert list(kinds) == ["TokenCreated", "TokenRevoked"]
    assert ApiToken.objects.get().revoked_ms is not None
