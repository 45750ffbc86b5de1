"""Who may join which live subject: a kind without a row here fails, so that each new one is decided."""

from __future__ import annotations

import pytest

from tests.webapp.conftest import Cast
from tests.webapp.world import World, build
from webapp.sockets import subjects

TEAM = {"owner": True, "member": True, "lead": True, "admin": True, "outsider": False}
EVERYBODY = dict.fromkeys(TEAM, True)
ADMIN = {**dict.fromkeys(TEAM, False), "admin": True}
NOBODY = dict.fromkeys(TEAM, False)
OF_A_TEAM = ("jobs", "models", "endpoints", "sweeps", "team", "deployments", "audit", "alerts")
# Their rules ask for one thing, whose own tests cover who may see it.
OF_ONE_THING = (
    "job",
    "run",
    "experiment",
    "endpoint",
    "report",
    "sweep",
    "deployment",
    "progress",
    "whatif",
    "node",
)
EVERYWHERE = {
    "cluster": EVERYBODY,  # its page is everybody's
    "cluster:vision": NOBODY,
    "audit": ADMIN,
    "alerts": EVERYBODY,  # those of the cluster alone
    "alerts:*": ADMIN,
}


def test_every_kind_is_decided() -> None:
    decided = {*OF_A_TEAM, *OF_ONE_THING, *(name.partition(":")[0] for name in EVERYWHERE)}
    assert set(subjects._WATCHERS) == decided


@pytest.mark.parametrize("who", TEAM)
@pytest.mark.parametrize("kind", OF_A_TEAM)
def test_what_is_of_a_team_is_for_its_people(kind: str, who: str, cast: Cast) -> None:
    assert subjects.may_watch(getattr(cast, who), f"{kind}:vision") is TEAM[who]


@pytest.mark.parametrize("who", TEAM)
@pytest.mark.parametrize("subject", EVERYWHERE)
def test_what_is_of_all_teams_is_for_whom_its_page_is(subject: str, who: str, cast: Cast) -> None:
    assert subjects.may_watch(getattr(cast, who), subject) is EVERYWHERE[subject][who]


@pytest.mark.parametrize("kind", OF_ONE_THING)
def test_what_is_not_there_is_for_nobody_but_an_admin(kind: str, cast: Cast) -> None:
    for who in ("owner", "member", "lead", "outsider"):
        assert not subjects.may_watch(getattr(cast, who), f"{kind}:not-there")


def test_things_of_a_team_are_not_for_outsiders(cast: Cast) -> None:
    world: World = build(cast)
    for subject in (
        f"job:{world.job}",
        f"sweep:{world.sweep}",
        f"experiment:{world.own_experiment}",
    ):
        assert subjects.may_watch(cast.member, subject)
        assert not subjects.may_watch(cast.outsider, subject)
