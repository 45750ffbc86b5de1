"""Guarantees are checked against the slots of the cluster, by the page as by REST."""

from collections.abc import Callable

import pytest
from django.test import Client
from rest_framework.test import APIClient

from platform_core.cluster.health import NodeState
from platform_core.errors import TrainmasterError
from tests.webapp.conftest import Cast
from webapp.accounts.models import Team, User
from webapp.accounts.permissions import SYSTEM
from webapp.nodes.models import Node
from webapp.quotas import services
from webapp.quotas.models import Quota

ADDRESS = "/api/v1/teams/vision/quotas/cpu"
REFUSAL = "vision cannot be guaranteed 5 cpu slots: the cluster has 8, 4 of them guaranteed to other teams; at most 4"


@pytest.fixture
def shared(node: Callable[..., Node], vision: Team, nlp: Team, quota: Callable[..., Quota]) -> list[Node]:
    """Eight slots; four are guaranteed to nlp, two to vision."""
    quota(nlp, guaranteed=4)
    quota(vision, guaranteed=2)
    return [node(f"node-{index}") for index in range(4)]


def guaranteed() -> int:
    return Quota.objects.get(team="vision", gpu_type="cpu").guaranteed


def test_a_lead_is_refused_more_than_the_others_leave(
    shared: list[Node], cast: Cast, browser: Callable[[User], Client], api: Callable[[User], APIClient]
) -> None:
    wish = {"guaranteed": 5, "maximum": 8, "version": 1}
    answer = api(cast.lead).put(ADDRESS, wish, format="json")
    assert (answer.status_code, answer.json()["code"]) == (409, "guarantee_too_large")
    assert answer.json()["detail"] == REFUSAL
    page = browser(cast.lead).post("/teams/vision/quota/", {"gpu_type": "cpu", **wish})
    assert page.status_code == 409
    assert REFUSAL[1:] in page.content.decode()
    assert guaranteed() == 2
    assert api(cast.lead).put(ADDRESS, {**wish, "guaranteed": 4}, format="json").status_code == 200


def test_draining_and_lost_nodes_count_and_revoked_ones_do_not(shared: list[Node]) -> None:
    def edit(to: int, version: int) -> None:
        services.edit_quota(
            SYSTEM, "vision", "cpu", guaranteed=to, maximum=8, queue_beyond=True, version=version
        )

    Node.objects.filter(id=shared[0].id).update(state=NodeState.LOST)
    Node.objects.filter(id=shared[1].id).update(state=NodeState.DRAINING)
    edit(4, 1)
    edit(2, 2)
    Node.objects.filter(id=shared[0].id).update(revoked_ms=1)
    with pytest.raises(TrainmasterError, match="the cluster has 6, 4 of them guaranteed"):
        edit(3, 3)
    assert guaranteed() == 2


def test_a_guarantee_beyond_the_cluster_may_be_lowered_or_kept(
    shared: list[Node], cast: Cast, api: Callable[[User], APIClient]
) -> None:
    Quota.objects.filter(team="vision").update(guaranteed=7)
    lead = api(cast.lead)
    assert lead.put(ADDRESS, {"guaranteed": 7, "maximum": 9, "version": 1}, format="json").status_code == 200
    lowered = lead.put(ADDRESS, {"guaranteed": 6, "maximum": 9, "version": 2}, format="json").json()
    assert lowered["notice"] == "All teams together are guaranteed 10 cpu slots, but the cluster has 8.", (
        "said until it is put right"
    )


def test_before_the_first_node_of_a_type_joins_it_is_accepted_and_said(
    cast: Cast, vision: Team, browser: Callable[[User], Client]
) -> None:
    form = {"gpu_type": "h100", "guaranteed": 64, "maximum": 64}
    page = browser(cast.lead).post("/teams/vision/quota/", form, follow=True).content.decode()
    assert "Quota for h100 saved." in page
    assert "All teams together are guaranteed 64 h100 slots, but no node with h100 has joined yet." in page
