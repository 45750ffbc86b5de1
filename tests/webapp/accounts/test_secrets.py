from collections.abc import Callable

import pytest
from cryptography.fernet import Fernet
from django.conf import LazySettings

from platform_core.errors import TrainmasterError
from tests.webapp.conftest import Cast
from webapp.accounts import queries, services
from webapp.accounts.models import TeamSecret, User
from webapp.accounts.permissions import Actor
from webapp.events.models import Event

ActorOf = Callable[[User], Actor]
VALUE = "hf_a-very-secret-value"


def test_a_secret_comes_back_as_it_was_set_and_lies_encrypted(cast: Cast, actor: ActorOf) -> None:
    services.set_secret(actor(cast.lead), "vision", "HF_TOKEN", VALUE)
    assert queries.secret_values("vision", ["HF_TOKEN"]) == {"HF_TOKEN": VALUE}
    assert VALUE.encode() not in bytes(TeamSecret.objects.get().ciphertext)


def test_no_event_and_no_listing_carries_the_value(cast: Cast, actor: ActorOf) -> None:
    services.set_secret(actor(cast.lead), "vision", "HF_TOKEN", VALUE)
    assert VALUE not in str(list(Event.objects.values()))
    assert VALUE not in str(queries.secrets("vision"))


def test_setting_it_again_replaces_the_value(cast: Cast, actor: ActorOf) -> None:
    services.set_secret(actor(cast.lead), "vision", "HF_TOKEN", VALUE)
    services.set_secret(actor(cast.lead), "vision", "HF_TOKEN", "another value")
    assert queries.secret_values("vision", ["HF_TOKEN"]) == {"HF_TOKEN": "another value"}
    kinds = Event.objects.filter(subject_kind="secret").order_by("id").values_list("kind", flat=True)
    assert list(kinds) == ["SecretAdded", "SecretChanged"]


def test_the_secrets_of_another_team_are_not_found(cast: Cast, actor: ActorOf) -> None:
    services.set_secret(actor(cast.lead), "vision", "HF_TOKEN", VALUE)
    with pytest.raises(TrainmasterError) as refusal:
        queries.secret_values("nlp", ["HF_TOKEN"])
    assert refusal.value.code == "secret_unknown"
    assert queries.secret_names("nlp") == frozenset()


def test_a_deleted_secret_is_gone(cast: Cast, actor: ActorOf) -> None:
    services.set_secret(actor(cast.lead), "vision", "HF_TOKEN", VALUE)
    services.delete_secret(actor(cast.lead), "vision", "HF_TOKEN")
    assert queries.secret_names("vision") == frozenset()
    with pytest.raises(TrainmasterError):
        services.delete_secret(actor(cast.lead), "vision", "HF_TOKEN")


@pytest.mark.parametrize("name", ["", "7UP", "WITH SPACE", "WITH-DASH", "ÜBER", "A" * 81])
def test_a_name_that_no_environment_takes_is_refused(cast: Cast, actor: ActorOf, name: str) -> None:
    with pytest.raises(TrainmasterError, match="is not valid"):
        services.set_secret(actor(cast.lead), "vision", name, VALUE)


@pytest.mark.parametrize("value", ["", "abc", "x" * 70_000, "with\0nothing"])
def test_a_value_that_cannot_be_masked_or_passed_on_is_refused(
    cast: Cast, actor: ActorOf, value: str
) -> None:
    with pytest.raises(TrainmasterError, match="4 to 65,536 bytes"):
        services.set_secret(actor(cast.lead), "vision", "HF_TOKEN", value)


def test_a_member_sets_no_secrets(cast: Cast, actor: ActorOf) -> None:
    with pytest.raises(TrainmasterError) as refusal:
        services.set_secret(actor(cast.member), "vision", "HF_TOKEN", VALUE)
    assert refusal.value.code == "not_allowed"


def test_a_changed_platform_key_is_told_and_not_crashed_on(
    cast: Cast, actor: ActorOf, settings: LazySettings
) -> None:
    services.set_secret(actor(cast.lead), "vision", "HF_TOKEN", VALUE)
    settings.SECRETS_KEY = Fernet.generate_key().decode()
    with pytest.raises(TrainmasterError, match="set it again on the team's page"):
        queries.secret_values("vision", ["HF_TOKEN"])
