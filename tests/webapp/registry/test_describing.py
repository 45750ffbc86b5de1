"""What people write about models and versions, over REST and on the command line, and the card that has it all."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from rest_framework.test import APIClient

from tests.webapp.conftest import Cast, make_cast, make_teams
from tests.webapp.test_command_line_roles import As, run_as
from tests.webapp.world import World, build
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.datasets import services as datasets
from webapp.jobs.models import Job
from webapp.lineage import services as lineage
from webapp.registry import gates, queries, services
from webapp.registry.models import ModelVersion

__all__ = ["run_as"]
SIGNATURE = {
    "inputs": [{"dtype": "float32", "shape": [None, 8]}], "outputs": [{"dtype": "int64", "shape": [None]}],
}  # fmt: skip
RULE = {"suite": "held-out", "metric": "accuracy", "bound": 0.9}
Api = Callable[[User], APIClient]


@pytest.fixture
def cast(transactional_db: None) -> Cast:
    make_teams()
    return make_cast()


@pytest.fixture
def version(cast: Cast) -> ModelVersion:
    found = queries.version(build(cast).model_version)
    assert found is not None
    return found


def address(version: ModelVersion, number: bool = True) -> str:
    model = f"/api/v1/models/vision/{version.model.name}"
    return f"{model}/versions/{version.version}" if number else model


def test_a_version_is_described_over_rest(cast: Cast, version: ModelVersion, api: Api) -> None:
    client, one = api(cast.member), address(version)
    given = {
        "description": "the first",
        "licence": "MIT",
        "tags": {"a": "1", "b": "2"},
        "signature": SIGNATURE,
    }
    answer = client.patch(one, given, format="json").json()
    assert {name: answer[name] for name in given} == given
    assert client.patch(one, {"tags": {"a": None}}, format="json").json()["tags"] == {"b": "2"}
    assert client.get(one).json()["licence"] == "MIT"
    assert client.patch(one, {"license": "MIT"}, format="json").status_code == 400
    refused = client.patch(one, {"signature": {"inputs": []}}, format="json")
    assert (refused.status_code, "1 to 64" in refused.content.decode()) == (400, True)


def test_an_alias_is_moved_over_rest_and_champion_asks_the_gate(
    cast: Cast, version: ModelVersion, api: Api
) -> None:
    client, model = api(cast.member), address(version, number=False)
    gates.set_policy(actor_of(cast.lead), version.model, {"thresholds": [RULE]})
    body = {"version": version.version}
    assert client.put(f"{model}/aliases/challenger", body, format="json").json()["aliases"] == {
        "challenger": 1
    }
    refused = client.put(f"{model}/aliases/champion", body, format="json")
    assert (refused.status_code, refused.json()["code"]) == (409, "gate_refused")
    assert client.delete(f"{model}/aliases/challenger").json()["aliases"] == {}
    assert client.put(f"{model}/aliases/best", {"version": 9}, format="json").status_code == 404


def test_the_command_line_describes_names_and_compares(
    cast: Cast, version: ModelVersion, run_as: As, tmp_path: Path
) -> None:
    name, who = version.model.name, cast.member
    card, signature = tmp_path / "card.md", tmp_path / "signature.json"
    card.write_text("Not for medical use.")
    signature.write_text(json.dumps(SIGNATURE))
    run_as(
        who, "models", "set", f"{name}:1", "--licence", "MIT", "--tag", "data=may", "--card", str(card),
        "--signature", str(signature),
    )  # fmt: skip
    run_as(who, "models", "set", name, "--description", "Completes text.")
    run_as(who, "models", "alias", f"{name}:1", "challenger")
    shown = run_as(who, "models", "show", f"{name}:1").stdout
    for words in ("MIT", "data = may", "challenger", "float32 [any, 8]", "int64 [any]", "candidate"):
        assert words in shown
    assert "Completes text." in run_as(who, "models", "show", name).stdout
    printed = run_as(who, "models", "card", f"{name}:1").stdout
    assert "Not for medical use." in printed
    assert "challenger" in run_as(who, "models").stdout
    services.register_logged(actor_of(cast.owner), version.model, "s3://elsewhere/model")
    assert "size of the files" in run_as(who, "models", "compare", name, "1", "2").stdout
    run_as(who, "models", "alias", name, "challenger", "--remove")
    assert not version.model.aliases.exists()
    assert "of a version" in run_as(who, "models", "set", name, "--licence", "MIT", code=2).stderr


def test_a_card_is_made_of_lineage_evaluations_and_what_people_add(
    cast: Cast, world: World, api: Api
) -> None:
    alice = actor_of(cast.owner)
    job = Job.objects.get(id=world.job)
    Job.objects.filter(id=job.id).update(spec=job.spec | {"dataset": world.snapshot, "purpose": "eval"})
    version = services.register(alice, "vision", "bytelm", checkpoint=world.checkpoint)
    services.fill_card(alice, version, card="Not for medical use.", licence="Apache-2.0")
    lines = [json.dumps({"id": 1, "metrics": {"f1": 1.0}, "slices": {"language": "de|at"}})]
    gates.evaluate(alice, version, "held-out", lines)
    datasets.describe(actor_of(cast.lead), "vision", "stdlib", licence="CC-BY-4.0")
    answer = api(cast.viewer).get(f"{address(version)}/card")
    assert answer.status_code == 200, answer.content
    card = answer.json()["markdown"]
    for words in (
        "Not for medical use.", "| Licence | Apache-2.0 |", "dataset stdlib v", "licence CC-BY-4.0",
        "| held-out | f1 | language = de\\|at | 1 |", "- command `",
    ):  # fmt: skip
        assert words in card
    assert "code of" not in card  # the job is not from git
    lineage.recall(alice, lineage.queries.item_of("model", version.id), "it repeats its data")
    assert "it repeats its data" in api(cast.viewer).get(f"{address(version)}/card").json()["markdown"]


def test_the_next_version_begins_with_the_card_of_the_one_before(cast: Cast, world: World) -> None:
    alice = actor_of(cast.owner)
    first = queries.version(world.model_version)
    assert first is not None
    services.fill_card(alice, first, card="Not for medical use.", licence="MIT", signature=SIGNATURE)
    second = services.register(alice, "vision", first.model.name, checkpoint=world.checkpoint)
    assert (second.card, second.licence, second.signature) == ("Not for medical use.", "MIT", {})


@pytest.fixture
def world(cast: Cast) -> World:
    return build(cast)
