"""What a team may hold, over REST: the same verb as on its page, with the same refusals."""

from collections.abc import Callable

import pytest
from rest_framework.test import APIClient

from tests.webapp.conftest import Cast
from tests.webapp.quotas.conftest import *  # noqa: F403  a quota, and slots that are held
from webapp.accounts.models import Team, User
from webapp.events.models import Event
from webapp.quotas.models import Quota

QUOTAS = "/api/v1/teams/vision/quotas"
Api = Callable[..., APIClient]


@pytest.fixture
def lead(cast: Cast, api: Api) -> APIClient:
    return api(cast.lead)


def test_a_lead_sets_one_changes_it_and_it_is_kept_with_the_reason(lead: APIClient) -> None:
    assert lead.get(QUOTAS).json() == {"results": []}
    made = lead.put(f"{QUOTAS}/a100-80gb", {"guaranteed": 8, "maximum": 16}, format="json").json()
    assert made == {
        "gpu_type": "a100-80gb", "guaranteed": 8, "maximum": 16, "queue_beyond": True, "version": 1, "held": 0,
        "borrowed": 0, "waiting": 0,
        "notice": "All teams together are guaranteed 8 a100-80gb slots, but no node with a100-80gb has joined yet.",
    }  # fmt: skip
    wish = {"guaranteed": 4, "maximum": 12, "queue_beyond": False, "version": 1, "reason": "a smaller budget"}
    changed = lead.put(f"{QUOTAS}/a100-80gb", wish, format="json").json()
    assert (changed["guaranteed"], changed["queue_beyond"], changed["version"]) == (4, False, 2)
    assert lead.get(f"{QUOTAS}/a100-80gb").json() == changed == lead.get(QUOTAS).json()["results"][0]
    event = Event.objects.filter(kind="QuotaChanged").latest("id")
    assert (event.actor, event.team) == ("user:lena", "vision")
    assert event.cause == "a100-80gb 8 to 16 → 4 to 12, beyond it refused: a smaller budget"


def test_what_is_held_stands_beside_it(
    cast: Cast, vision: Team, quota: Callable[..., Quota], hold: Callable[..., object], api: Api
) -> None:
    quota(vision, guaranteed=2, maximum=8)
    hold(vision, cast.owner, slots=3)
    (told,) = api(cast.viewer).get(QUOTAS).json()["results"]
    assert (told["held"], told["borrowed"]) == (3, 1)


@pytest.mark.parametrize(
    ("gpu_type", "wish", "status", "why"),
    [
        ("cpu", {"guaranteed": 9, "maximum": 8}, 400, "9 guaranteed, 8 at most; it must be 0"),
        ("cpu", {"guaranteed": -1, "maximum": 8}, 400, "-1 guaranteed"),
        ("cpu", {"maximum": 8}, 400, "guaranteed"),
        ("cpu", {"guaranteed": 1, "maximum": 8, "max": 9}, 400, "The field 'max'"),
        ("CPU!", {"guaranteed": 1, "maximum": 8}, 400, "is written like a100-80gb"),
        ("cpu", {"guaranteed": 1, "maximum": 8, "version": 7}, 409, "version 7"),
    ],
)
def test_what_cannot_be_is_refused_with_the_numbers(
    lead: APIClient, gpu_type: str, wish: dict[str, object], status: int, why: str
) -> None:
    answer = lead.put(f"{QUOTAS}/{gpu_type}", wish, format="json")
    assert (answer.status_code, why in str(answer.json())) == (status, True), answer.json()
    assert not Quota.objects.exists()


def test_who_had_not_seen_a_change_does_not_undo_it(lead: APIClient) -> None:
    wish = {"guaranteed": 1, "maximum": 2}
    assert lead.put(f"{QUOTAS}/cpu", wish, format="json").status_code == 200
    assert lead.put(f"{QUOTAS}/cpu", {**wish, "maximum": 3}, format="json").status_code == 409, (
        "it is there by now"
    )
    assert lead.put(f"{QUOTAS}/cpu", {**wish, "maximum": 3, "version": 1}, format="json").status_code == 200
    assert lead.put(f"{QUOTAS}/cpu", {**wish, "maximum": 4, "version": 1}, format="json").status_code == 409
    assert Quota.objects.get().maximum == 3


def test_others_change_none_and_outsiders_see_none(
    cast: Cast, vision: Team, quota: Callable[..., Quota], api: Api, admin_api: Callable[[User], APIClient]
) -> None:
    quota(vision, maximum=8)
    wish = {"guaranteed": 0, "maximum": 99, "version": 1}
    for who, sees, changes in (
        (api(cast.viewer), 200, 403), (api(cast.member), 200, 403), (api(cast.outsider, "nlp"), 404, 404),
    ):  # fmt: skip
        assert who.get(f"{QUOTAS}/cpu").status_code == sees
        assert who.put(f"{QUOTAS}/cpu", wish, format="json").status_code == changes
    assert Quota.objects.get().maximum == 8
    admin = admin_api(cast.admin)
    assert admin.put(f"{QUOTAS}/cpu", wish, format="json").json()["maximum"] == 99
    assert admin.get(f"{QUOTAS}/h100").status_code == 404
    assert admin.put("/api/v1/teams/nowhere/quotas/cpu", wish, format="json").status_code == 404
