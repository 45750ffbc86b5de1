"""Nothing unproven passes: each door asks the gate of the model, and an admin's override is recorded."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from platform_core.errors import TrainmasterError
from platform_core.registry.stages import Stage
from tests.webapp.conftest import Cast
from tests.webapp.world import World, build
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.deployments import services as deployments
from webapp.events.queries import story
from webapp.registry import gates, queries, services
from webapp.registry.models import Model, ModelVersion
from webapp.registry.recording import subject_of
from webapp.serving import services as serving

Api = Callable[[User], APIClient]
Browser = Callable[[User], Client]
POLICY = {
    "thresholds": [{"suite": "held-out", "metric": "accuracy", "bound": 0.9, "every_slice": True}],
    "margins": [{"suite": "held-out", "metric": "accuracy", "worse_by": 0.01}],
    "approvals": 1,
}


@pytest.fixture
def world(cast: Cast) -> World:
    return build(cast)


@pytest.fixture
def version(cast: Cast, world: World) -> ModelVersion:
    """The only version of a model with a gate; alice registered it."""
    found = queries.version(world.model_version)
    assert found is not None
    gates.set_policy(actor_of(cast.lead), found.model, POLICY)
    return fresh(found)


def fresh(version: ModelVersion) -> ModelVersion:
    return queries.numbered(Model.objects.get(pk=version.model_id), version.version)


def results(right: float, count: int = 400, of_slice: str = "") -> list[str]:
    """So many samples, of which this part is right."""
    slices = {"language": of_slice} if of_slice else {}
    return [
        json.dumps(
            {"id": f"{of_slice}{n}", "metrics": {"accuracy": float(n < right * count)}, "slices": slices}
        )
        for n in range(count)
    ]


def refused(act: Callable[[], object]) -> str:
    with pytest.raises(TrainmasterError) as caught:
        act()
    assert caught.value.code == "gate_refused"
    return caught.value.sentence


def prove(cast: Cast, version: ModelVersion, right: float = 0.95) -> None:
    gates.evaluate(actor_of(cast.owner), version, "held-out", results(right))


def test_each_door_refuses_what_is_not_proven_and_opens_for_what_is(
    cast: Cast, world: World, version: ModelVersion
) -> None:
    alice, name = actor_of(cast.owner), version.model.name
    endpoint = {"name": "served", "team": "vision", "model": name, "version": 1, "gpu_type": "cpu"}
    doors: dict[str, Callable[[], object]] = {
        "enter staging": lambda: services.set_stage(alice, fresh(version), "staging"),
        "be deployed": lambda: deployments.what_and_where(alice, f"vision/{name}", 1, [world.node]),
        "be served": lambda: serving.create(alice, endpoint),
        "be called champion": lambda: services.set_alias(alice, fresh(version), "champion"),
    }
    for what, enter in doors.items():
        assert refused(enter) == f"{name} v1 may not {what}: held-out has not evaluated this version"
    services.set_alias(alice, fresh(version), "challenger")
    prove(cast, version)
    for enter in reversed(doors.values()):
        enter()
    assert fresh(version).stage == "staging"


def test_a_candidate_that_passes_its_gate_is_validated_by_the_platform(
    cast: Cast, version: ModelVersion
) -> None:
    prove(cast, version, right=0.5)
    assert fresh(version).stage == "candidate"
    prove(cast, version)
    assert fresh(version).stage == "validated"
    (event,) = [one for one in story(subject_of(version.model)) if one.kind == "VersionStageChanged"]
    assert (event.actor, event.data["stage"]) == ("system", "validated")
    prove(cast, version, right=0.5)
    refused(lambda: services.set_stage(actor_of(cast.owner), fresh(version), "staging"))


def test_a_gate_that_asks_for_less_validates_what_passes_it_now(cast: Cast, version: ModelVersion) -> None:
    prove(cast, version, right=0.8)
    assert fresh(version).stage == "candidate"
    lower = {**POLICY, "thresholds": [{"suite": "held-out", "metric": "accuracy", "bound": 0.7}]}
    gates.set_policy(actor_of(cast.lead), version.model, lower)
    assert fresh(version).stage == "validated"
    gates.set_policy(actor_of(cast.lead), version.model, POLICY)
    assert fresh(version).stage == "validated"


def test_a_canary_of_an_unproven_version_is_refused(cast: Cast, world: World, version: ModelVersion) -> None:
    alice = actor_of(cast.owner)
    prove(cast, version)
    body = {"name": "served", "team": "vision", "model": version.model.name, "version": 1, "gpu_type": "cpu"}
    serving.create(alice, body)
    services.register(alice, "vision", version.model.name, checkpoint=world.checkpoint)
    policy = serving.CanaryPolicy()
    assert "v2 may not be served" in refused(
        lambda: serving.change_version(alice, "vision", "served", 2, policy)
    )


def test_every_reason_is_given_at_once_with_its_numbers(cast: Cast, version: ModelVersion) -> None:
    lines = results(0.95) + results(0.5, 40, "de")
    gates.evaluate(actor_of(cast.owner), version, "held-out", lines)
    assert gates.refusals(fresh(version), Stage.PRODUCTION) == (
        "held-out: accuracy of language = de is 0.5, at least 0.9",
        "it has 0 of 1 approvals by a lead other than alice, who registered it",
    )


def test_approvals_of_others_count_by_role_and_one_s_own_never(cast: Cast, version: ModelVersion) -> None:
    prove(cast, version)
    alice, lena = actor_of(cast.owner), actor_of(cast.lead)
    for actor in (alice, actor_of(cast.member)):
        gates.approve(actor, version)
        assert "0 of 1 approvals" in refused(lambda: services.set_stage(alice, fresh(version), "production"))
    for _ in range(2):
        gates.approve(lena, version)
    assert services.set_stage(alice, fresh(version), "production").stage == "production"
    gates.withdraw(lena, version)
    assert gates.refusals(fresh(version), Stage.PRODUCTION) != ()
    assert services.set_stage(alice, fresh(version), "staging").stage == "staging", (
        "a demotion proves nothing"
    )


def test_a_version_that_is_worse_than_production_stays_out(
    cast: Cast, world: World, version: ModelVersion
) -> None:
    alice = actor_of(cast.owner)
    prove(cast, version, 0.97)
    gates.approve(actor_of(cast.lead), version)
    services.set_stage(alice, fresh(version), "production")
    other = services.register(alice, "vision", version.model.name, checkpoint=world.checkpoint)
    prove(cast, other, 0.92)
    sentence = refused(lambda: services.set_stage(alice, other, "staging"))
    assert "held-out: accuracy may be" in sentence
    assert "worse than production (400 pairs, 95 % interval); 0.01 is allowed" in sentence
    prove(cast, other, 0.97)
    assert services.set_stage(alice, other, "staging").stage == "staging"


def test_the_verdict_is_the_same_each_time(cast: Cast, version: ModelVersion) -> None:
    alice = actor_of(cast.owner)
    first = gates.evaluate(alice, version, "held-out", results(0.9)).metrics
    assert gates.evaluate(alice, version, "held-out", results(0.9)).metrics == first
    assert version.evaluations.count() == 1


def test_only_an_admin_overrides_and_the_reason_is_recorded(cast: Cast, version: ModelVersion) -> None:
    move = {"archive_others": False, "override": "the incident of Monday"}
    with pytest.raises(TrainmasterError, match="override the gate"):
        services.set_stage(actor_of(cast.lead), fresh(version), "production", **move)  # type: ignore[arg-type]
    services.set_stage(actor_of(cast.admin), fresh(version), "production", **move)  # type: ignore[arg-type]
    [event] = [one for one in story(subject_of(version.model)) if one.kind == "GateOverridden"]
    assert event.data["reason"] == "the incident of Monday"
    assert len(event.data["refused"]) == 2


def test_who_may_not_change_the_gate_does_not_get_rid_of_it_by_deleting_the_model(
    cast: Cast, version: ModelVersion
) -> None:
    with pytest.raises(TrainmasterError) as caught:
        services.delete_model(actor_of(cast.owner), version.model)
    assert caught.value.code == "not_allowed"
    services.delete_model(actor_of(cast.lead), version.model)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"thresholds": [{"suite": "s", "metric": "m"}]}, "bound"),
        ({"approvals": -1}, "approvals"),
        ({"uncontaminated": True}, "name one in a threshold"),
        ({"measured_by": "me"}, "it must be server or anyone"),
        ({"votes": 3}, "votes"),
    ],
)
def test_a_gate_that_cannot_be_kept_is_refused(
    cast: Cast, version: ModelVersion, fields: dict[str, Any], why: str
) -> None:
    with pytest.raises(TrainmasterError, match=why):
        gates.set_policy(actor_of(cast.lead), version.model, fields)


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([], "no samples"),
        (["{}"], "line 1"),
        (results(1.0, gates.MOST_VALUES // 2 + 1, "de"), "100,002 values, .* the limit is 100,000"),
    ],
    ids=["none", "bad", "many"],
)
def test_results_that_are_none_are_refused(
    cast: Cast, version: ModelVersion, lines: list[str], why: str
) -> None:
    with pytest.raises(TrainmasterError, match=why):
        gates.evaluate(actor_of(cast.owner), version, "held-out", lines)


def test_a_metric_that_is_no_number_passes_nothing(cast: Cast, version: ModelVersion) -> None:
    lines = ['{"id": "1", "metrics": {"accuracy": NaN}}', '{"id": "2", "metrics": {"accuracy": 1}}']
    row = gates.evaluate(actor_of(cast.owner), version, "held-out", lines)
    assert row.metrics["accuracy"] == {"mean": None, "low": None, "high": None, "samples": 2}
    assert gates.refusals(fresh(version), Stage.STAGING) == ("held-out: accuracy is nan, at least 0.9",)


def test_the_whole_way_over_rest(cast: Cast, version: ModelVersion, api: Api) -> None:
    alice, one = api(cast.owner), f"/api/v1/models/vision/{version.model.name}/versions/1"
    assert alice.get(f"/api/v1/models/vision/{version.model.name}/gate").json()["approvals"] == 1
    answer = alice.put(f"{one}/stage", {"stage": "production"}, format="json")
    assert (answer.status_code, answer.json()["code"]) == (409, "gate_refused")
    body = {"suite": "held-out", "lines": "\n".join(results(0.95))}
    made = alice.post(f"{one}/evaluations", body, format="json")
    assert (made.status_code, made.json()["samples"]) == (201, 400)
    standing = api(cast.lead).put(f"{one}/approval").json()
    assert standing["refused"] == {"staging": [], "production": []}
    moved = alice.put(f"{one}/stage", {"stage": "production"}, format="json")
    assert (moved.status_code, moved.json()["stage"]) == (200, "production")


def test_the_page_says_how_each_version_stands(cast: Cast, version: ModelVersion, browser: Browser) -> None:
    address, lena = f"/models/vision/{version.model.name}/", browser(cast.lead)
    page = lena.get(address).content.decode()
    assert "held-out: accuracy at least 0.9, in every slice as well" in page
    assert "held-out has not evaluated this version" in page
    assert "Reason to override" not in page
    refused_stage = lena.post(f"{address}1/stage/", {"stage": "production"}, follow=True).content.decode()
    assert "v1 may not enter production: held-out has not evaluated this version" in refused_stage
    prove(cast, version)
    page = lena.post(f"{address}1/approve/", follow=True).content.decode()
    assert "Approved by lena (lead)" in page
    assert '<span class="state ok">passes</span>' in page
    page = lena.post(f"{address}1/stage/", {"stage": "production"}, follow=True).content.decode()
    assert "Version 1 is in production." in page
    refused = lena.post(f"{address}gate/", {"policy": '{"votes": 3}'})
    assert refused.status_code == 422
    kept = refused.content.decode()
    assert "{&quot;votes&quot;: 3}</textarea>" in kept
    assert "&#x27;votes&#x27; is none of approvals" in kept
    assert f'hx-get="{address}?block=gate"' in kept, "the refused form stands at another address"
    assert "it is not JSON" in lena.post(f"{address}gate/", {"policy": "{"}).content.decode()
    opened = lena.post(f"{address}gate/", {"policy": "{}"}, follow=True).content.decode()
    assert "No rule: every version may be promoted" in opened
