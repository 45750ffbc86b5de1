import pytest

from platform_core.errors import TrainmasterError
from webapp.accounts.models import Role
from webapp.accounts.permissions import RULES, SYSTEM, Actor, may, require

VIEWER = Actor("vera", {"vision": Role.VIEWER})
MEMBER = Actor("bob", {"vision": Role.MEMBER})
LEAD = Actor("lena", {"vision": Role.LEAD})
OUTSIDER = Actor("carol", {"nlp": Role.LEAD})
ADMIN = Actor("root", is_admin=True)


def allowed(actor: Actor, team: str = "vision", owner: str | None = None) -> set[str]:
    return {action for action in RULES if may(actor, action, team, owner)}


def test_each_role_may_all_that_the_role_below_it_may() -> None:
    assert allowed(OUTSIDER) < allowed(VIEWER) < allowed(MEMBER) < allowed(LEAD) < allowed(ADMIN)


def test_an_admin_may_everything_everywhere() -> None:
    assert allowed(ADMIN) == allowed(ADMIN, "a team that is not theirs") == set(RULES) == allowed(SYSTEM)


def test_an_outsider_may_only_see_what_everybody_sees() -> None:
    assert allowed(OUTSIDER) == {"cluster.view", "node.view"}


def test_a_viewer_changes_nothing_but_their_own_tokens() -> None:
    asking = {"endpoint.call"}
    changes = {action for action in allowed(VIEWER) if not action.endswith(".view")} - asking
    assert changes == {"token.create"}


@pytest.mark.parametrize("action", ["job.cancel", "deployment.cancel"])
def test_a_member_cancels_only_what_is_their_own(action: str) -> None:
    assert may(MEMBER, action, "vision", owner="bob")
    assert not may(MEMBER, action, "vision", owner="alice")
    assert may(LEAD, action, "vision", owner="alice")
    assert not may(VIEWER, action, "vision", owner="vera")


def test_owning_a_thing_is_nothing_without_being_in_its_team() -> None:
    assert not may(OUTSIDER, "job.cancel", "vision", owner="carol")


def test_outsiders_do_not_learn_that_the_thing_exists() -> None:
    with pytest.raises(TrainmasterError) as refusal:
        require(OUTSIDER, "job.cancel", "vision", what="job job-1")
    assert refusal.value.code == "not_found"
    assert refusal.value.sentence == "There is no job job-1 you may see"


def test_insiders_without_the_right_are_told_whom_to_ask() -> None:
    with pytest.raises(TrainmasterError) as refusal:
        require(MEMBER, "quota.edit", "vision")
    assert refusal.value.code == "not_allowed"
    assert refusal.value.sentence == "You may not change the quota of this team; ask a lead of vision"


def test_operators_work_is_for_admins_and_says_so() -> None:
    with pytest.raises(TrainmasterError, match="ask a platform admin"):
        require(LEAD, "node.operate")


def test_an_action_outside_the_table_is_a_mistake_and_not_a_no() -> None:
    with pytest.raises(KeyError):
        may(ADMIN, "job.explode", "vision")
