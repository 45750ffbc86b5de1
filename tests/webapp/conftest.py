"""The cast, the two teams, and what every test of the web application checks at its end."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from django.db import transaction
from django.test import Client, override_settings
from rest_framework.test import APIClient

from platform_core.cluster.invariants import check
from platform_core.node.description import NodeDescription, SlotDescription
from tests.support.again import again
from tests.support.html import Browser
from webapp.accounts import queries as account_queries
from webapp.accounts import services as accounts
from webapp.accounts import tokens
from webapp.accounts.models import Role, Team, User
from webapp.accounts.permissions import SYSTEM, Actor
from webapp.jobs.books import books
from webapp.nodes import enrolment, liveness
from webapp.nodes import services as clusters
from webapp.nodes.models import Node
from webapp.quotas.models import Quota

BOOTSTRAP = "bootstrap-of-the-tests"


@dataclass(frozen=True)
class Cast:
    """alice submits, bob is another member, lena leads vision, vera only looks, carol is of nlp, root runs it all."""

    owner: User
    member: User
    lead: User
    viewer: User
    outsider: User
    admin: User


@pytest.fixture(autouse=True, scope="package")
def quick_settings() -> Iterator[None]:
    """Cheap passwords, and no walk through all static files for each client that a test makes."""
    hashers = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    with override_settings(PASSWORD_HASHERS=hashers, WHITENOISE_AUTOREFRESH=True):
        yield


@pytest.fixture(autouse=True)
def empty_valkey() -> None:
    """The server belongs to this test session alone; see tests/support/databases.py."""
    liveness.client().flushdb()


@pytest.fixture(autouse=True)
def books_agree(db: None) -> Iterator[None]:
    """No slot is held twice, nothing that ended holds one, and the ledger is the sum of what runs."""
    yield
    assert check(books()) == ()


@again
def make_teams() -> tuple[Team, Team]:
    return accounts.create_team(SYSTEM, "vision", "Vision"), accounts.create_team(SYSTEM, "nlp", "Language")


@again
def make_cast() -> Cast:
    def person(username: str, team: str, role: Role) -> User:
        user = accounts.create_user(SYSTEM, username, f"password of {username}")
        accounts.set_role(SYSTEM, team, username, role)
        return user

    return Cast(
        owner=person("alice", "vision", Role.MEMBER),
        member=person("bob", "vision", Role.MEMBER),
        lead=person("lena", "vision", Role.LEAD),
        viewer=person("vera", "vision", Role.VIEWER),
        outsider=person("carol", "nlp", Role.MEMBER),
        admin=accounts.create_user(SYSTEM, "root", "password of root", is_admin=True),
    )


@pytest.fixture
def teams(db: None) -> tuple[Team, Team]:
    return make_teams()


@pytest.fixture
def vision(teams: tuple[Team, Team]) -> Team:
    return teams[0]


@pytest.fixture
def nlp(teams: tuple[Team, Team]) -> Team:
    return teams[1]


@pytest.fixture
def cast(teams: tuple[Team, Team]) -> Cast:
    return make_cast()


@pytest.fixture
def owner(cast: Cast) -> User:
    return cast.owner


@pytest.fixture
def member(cast: Cast) -> User:
    return cast.member


@pytest.fixture
def lead(cast: Cast) -> User:
    return cast.lead


@pytest.fixture
def viewer(cast: Cast) -> User:
    return cast.viewer


@pytest.fixture
def outsider(cast: Cast) -> User:
    return cast.outsider


@pytest.fixture
def admin(cast: Cast) -> User:
    return cast.admin


@pytest.fixture
def actor() -> Callable[[User], Actor]:
    """The person as services see them."""
    return account_queries.actor_of


@pytest.fixture
def browser() -> Callable[[User], Client]:
    """A browser in which the person has signed in."""
    return signed_in


def signed_in(user: User) -> Client:
    client = Browser()
    client.force_login(user)
    return client


@pytest.fixture
def api() -> Callable[..., APIClient]:
    """A program with the person's token for a team (vision unless told)."""
    return with_token


def of_the_test() -> transaction.Atomic:
    """A transaction in which a test takes back what it did; requests in it may wait for others, as outside of one."""
    block = transaction.atomic()
    block._from_testcase = True
    return block


def with_token(user: User, team: str = "vision") -> APIClient:
    token = tokens.create_token(account_queries.actor_of(user), team, "tests", 1)
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token.text}")
    return client


@pytest.fixture
def admin_api() -> Callable[[User], APIClient]:
    """A program with an admin's token of the scope admin."""
    return with_admin_token


def with_admin_token(user: User) -> APIClient:
    token = tokens.create_admin_token(account_queries.actor_of(user), "operations", 1)
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token.text}")
    return client


@pytest.fixture
def quota() -> Callable[..., Quota]:
    """What a team may hold: quota(vision, "cpu", guaranteed=4, maximum=8)."""

    def give(
        team: Team, gpu_type: str = "cpu", *, guaranteed: int = 4, maximum: int = 8, queue_beyond: bool = True
    ) -> Quota:
        return Quota.objects.create(
            team=team, gpu_type=gpu_type, guaranteed=guaranteed, maximum=maximum, queue_beyond=queue_beyond
        )

    return give


def description(
    hostname: str = "node-1", slots: int = 2, *, rack: str = "rack-1", gpu_type: str = "cpu"
) -> NodeDescription:
    return NodeDescription(
        hostname=hostname,
        rack=rack,
        block="",
        gpu_type=gpu_type,
        slots=tuple(SlotDescription(index, f"slot {index}") for index in range(slots)),
        cpus=8,
        memory_bytes=64 * 2**30,
        disk_bytes=2**40,
        agent_version="0.1.0",
        address="127.0.0.1",
        transfer_port=7700,
        rendezvous_port_low=29400,
        rendezvous_port_high=29499,
        holds_ready_files=True,
    )


def credential_of(node: Node) -> str:
    """A credential that opens the node's sessions, as if its agent had kept it."""
    credential, digest = enrolment.new_credential()
    Node.objects.filter(id=node.id).update(credential_digest=digest)
    return credential


@pytest.fixture
def node(db: None) -> Callable[..., Node]:
    """A node that has joined and said Hello, so it is ready: node("node-1", slots=4, rack="rack-2")."""

    def join(hostname: str = "node-1", slots: int = 2, **kwargs: str) -> Node:
        described = description(hostname, slots, **kwargs)
        node_id, _ = clusters.join(BOOTSTRAP, described)
        clusters.hello(node_id, described)
        return Node.objects.get(id=node_id)

    return join
