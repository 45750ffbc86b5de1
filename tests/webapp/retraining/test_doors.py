"""Retraining on the page, over REST and on the command line."""

from collections.abc import Callable

import pytest
from django.test import Client
from rest_framework.test import APIClient

from tests.webapp.retraining.conftest import Loop
from webapp.accounts.models import Mail, User
from webapp.accounts.queries import actor_of
from webapp.retraining import queries, services
from webapp.serving import services as serving

Api = Callable[[User], APIClient]
Browser = Callable[[User], Client]
ADDRESS, REST = "/retraining/vision/bytelm/", "/api/v1/models/vision/bytelm/retraining"


def test_the_page_shows_the_whole_circle(loop: Loop, browser: Browser) -> None:
    lena, bob = browser(loop.cast.lead), browser(loop.cast.member)
    page = lena.get(ADDRESS).content.decode()
    assert "nothing retrains it" in page
    assert '<a href="/retraining/vision/bytelm/">' in lena.get("/retraining/").content.decode()
    refused = lena.post(f"{ADDRESS}policy/", {"enabled": "on", "endpoint": "mlp"})
    assert refused.status_code == 422
    assert "nothing would begin a cycle" in refused.content.decode()
    fields = {
        "enabled": "on", "endpoint": "mlp", "drift": "on", "for_minutes": "0", "approve_training": "on",
        "decay_bound": "0.5", "gpu_hours_a_week": "24", "approve_canary": "on",
    }  # fmt: skip
    page = lena.post(f"{ADDRESS}policy/", fields, follow=True).content.decode()
    assert "follows this policy from now on, as you" in page
    assert "begins as soon as there is drift" in page
    loop.drifts()
    loop.round()
    page = bob.get(ADDRESS).content.decode()
    assert "Features input.age drifted just now." in page
    assert ">needs approval</span>" in page
    assert "Approve training" not in page
    stale = lena.post(f"{ADDRESS}{loop.cycle().id}/approve/", {"state": "proven"})
    assert (stale.status_code, "changed" in stale.content.decode()) == (409, True)
    page = lena.post(
        f"{ADDRESS}{loop.cycle().id}/approve/", {"state": "requested"}, follow=True
    ).content.decode()
    assert "Approved; the step is done in the next round." in page
    loop.round()
    page = bob.get(ADDRESS).content.decode()
    assert f'<a href="/jobs/{loop.job().id}/">visits</a>' in page
    loop.trains()
    assert "Held-out v1 is waiting" in bob.get(ADDRESS).content.decode()
    loop.evaluates()
    loop.round()
    assert "Approve canary" in lena.get(ADDRESS).content.decode()
    services.approve(actor_of(loop.cast.lead), loop.cycle().id)
    loop.round()
    serving.promote(actor_of(loop.cast.lead), "vision", "mlp")
    loop.round()
    page = bob.get(ADDRESS).content.decode()
    assert ">promoted</span>" in page
    assert "The last cycle" in page
    held = bob.post(f"{ADDRESS}start/")
    assert held.status_code == 409
    assert "24 h must be between two beginnings" in held.content.decode()
    page = lena.post(f"{ADDRESS}policy/delete/", follow=True).content.decode()
    assert "is not retrained by itself any more" in page


def test_a_cycle_of_another_model_is_not_found_under_this_one(loop: Loop, browser: Browser) -> None:
    loop.set()
    services.start(actor_of(loop.cast.member), loop.model)
    lena = browser(loop.cast.lead)
    assert lena.post(f"/retraining/vision/other/{loop.cycle().id}/cancel/").status_code == 404
    page = lena.post(f"{ADDRESS}{loop.cycle().id}/cancel/", follow=True).content.decode()
    assert "The cycle has ended." in page
    assert ">cancelled</span>" in page


def test_a_policy_and_its_cycles_over_rest(loop: Loop, api: Api) -> None:
    lena, bob = api(loop.cast.lead), api(loop.cast.member)
    assert lena.get(REST).status_code == 404
    wrong = lena.put(REST, {"drift": True, "max_age": 3}, format="json")
    assert (wrong.status_code, wrong.json()["code"]) == (422, "policy_invalid")
    assert [problem["field"] for problem in wrong.json()["problems"]] == ["max_age"]
    made = lena.put(REST, {"endpoint": "mlp", "drift": True, "approve_training": True}, format="json").json()
    assert (made["author"], made["policy"]["approve_training"], made["held"]["reasons"]) == ("lena", True, [])
    begun = bob.post(f"{REST}/cycles")
    assert begun.status_code == 201
    cycle = begun.json()
    assert (cycle["state"], cycle["asks"], cycle["asked_by"], cycle["base"]) == ("requested", True, "bob", 1)
    held = bob.post(f"{REST}/cycles")
    assert (held.status_code, held.json()["code"]) == (409, "retraining_held")
    one = f"/api/v1/retraining-cycles/{cycle['id']}"
    assert lena.post(f"{one}/approval?state=proven").status_code == 409
    assert lena.post(f"{one}/approval?state=requested").json()["state"] == "submitting"
    assert lena.post(f"{one}/cancel").json()["meaning"] == "A person ended it."
    assert [row["id"] for row in bob.get(f"{REST}/cycles").json()["results"]] == [cycle["id"]]
    assert [row["model"] for row in bob.get("/api/v1/retraining").json()["results"]] == ["bytelm"]
    assert lena.delete(REST).status_code == 204
    assert queries.policy(loop.model) is None


@pytest.fixture
def mailed(settings: object) -> None:
    settings.MAIL_URL = "smtp://localhost"  # type: ignore[attr-defined]


def test_a_lead_is_told_by_mail_of_an_approval_and_of_a_failure(loop: Loop, mailed: None) -> None:
    lena = loop.cast.lead
    lena.email = "lena@example.org"
    lena.save()
    loop.set(approve_training=True)
    loop.drifts()
    loop.round()
    services.approve(actor_of(lena), loop.cycle().id)
    loop.round()
    loop.trains()
    loop.evaluates(0.1)
    subjects = list(Mail.objects.order_by("id").values_list("subject", flat=True))
    assert subjects == [
        "Trainmaster: the retraining of bytelm needs an approval",
        "Trainmaster: the retrained bytelm did not pass its gate",
    ]
    assert "input.age drifted" in Mail.objects.order_by("id")[0].text


def test_an_outsider_does_not_learn_of_it(loop: Loop, browser: Browser) -> None:
    loop.set()
    carol = browser(loop.cast.outsider)
    assert carol.get(ADDRESS).status_code == 404
    assert "bytelm" not in carol.get("/retraining/").content.decode()
