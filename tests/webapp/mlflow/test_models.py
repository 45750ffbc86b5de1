"""Searches of models, artifact locations and pages of a metric's history, as an MLflow client asks for them."""

from typing import Any

import numpy as np
import pytest

from tests.webapp.conftest import Cast
from tests.webapp.mlflow.conftest import Mlflow
from webapp.accounts.queries import actor_of
from webapp.metrics import segments, services
from webapp.metrics.values import Points
from webapp.registry import gates
from webapp.registry import queries as registry
from webapp.registry.models import Model

MODELS = {
    "forest": {"stage": "prod", "note": "50% off"},
    "Forest-2": {"stage": "dev"},
    "prompt": {"mlflow.prompt.is_prompt": "true"},
    "wine": {},
}


@pytest.fixture
def models(alice: Mlflow) -> None:
    for name, tags in MODELS.items():
        pairs = [{"key": key, "value": value} for key, value in tags.items()]
        alice.done("POST", "registered-models/create", {"name": name, "tags": pairs})
        for number in (1, 2, 3) if name == "wine" else (1,):
            is_prompt = tags.get("mlflow.prompt.is_prompt") == "true"
            source = "dummy-source" if is_prompt else f"s3://elsewhere/{name}/{number}"
            alice.done("POST", "model-versions/create", {"name": name, "source": source, "tags": pairs})


@pytest.mark.parametrize(
    ("filter", "names"),
    [
        ("", ["Forest-2", "forest", "wine"]),
        ("name = 'forest'", ["forest"]),
        ("name != 'forest'", ["Forest-2", "wine"]),
        ("name LIKE 'f%'", ["forest"]),
        ("name ILIKE 'f%'", ["Forest-2", "forest"]),
        ("name LIKE 'w_n_'", ["wine"]),
        ("tags.stage = 'prod'", ["forest"]),
        ("tags.stage != 'prod'", ["Forest-2"]),
        ("tags.stage IS NULL", ["wine"]),
        ("tags.`stage` IS NOT NULL AND name ILIKE '%2'", ["Forest-2"]),
        ("tags.note LIKE '50!%%'", []),
        ("tags.note LIKE '50% off'", ["forest"]),
        ("tags.mlflow.prompt.is_prompt = 'true'", ["prompt"]),
        ("tags.mlflow.prompt.is_prompt != 'true'", ["Forest-2", "forest", "wine"]),
        ("tags.`a'; DROP TABLE registry_model; --` = 'x'", []),
    ],
)
def test_models_are_filtered_as_mlflow_does_it(
    models: None, alice: Mlflow, filter: str, names: list[str]
) -> None:
    found = alice.done("GET", "registered-models/search", {"filter": filter, "order_by": "name ASC"})
    assert sorted(model["name"] for model in found.get("registered_models", [])) == sorted(names)


@pytest.mark.parametrize(
    ("filter", "count"),
    [
        ("name = 'wine'", 3),
        ("version_number > 1.5", 2),
        ("version_number = 1.5", 0),
        ("version_number <= 1", 3),
        ("run_id = ''", 5),
        ("source_path LIKE 's3://elsewhere/wine/%'", 3),
        ("name IN ('wine', 'forest')", 4),
        ("name NOT IN ('wine', 'forest')", 1),
        ("tags.stage = 'dev'", 1),
        ("tags.mlflow.prompt.is_prompt = 'true'", 1),
    ],
)
def test_versions_are_filtered_as_mlflow_does_it(
    models: None, alice: Mlflow, filter: str, count: int
) -> None:
    found = alice.done("GET", "model-versions/search", {"filter": filter})
    assert len(found.get("model_versions", [])) == count


def test_a_search_of_models_reads_one_page_of_them(
    models: None, alice: Mlflow, django_assert_max_num_queries: Any
) -> None:
    names: list[str] = []
    token = ""
    while True:
        asked = {"max_results": 2, "order_by": "name DESC", "page_token": token}
        with django_assert_max_num_queries(20) as statements:
            found = alice.done("GET", "registered-models/search", asked)
        searches = [q["sql"] for q in statements.captured_queries if "is_prompt" in q["sql"]]
        assert "LIMIT 3" in searches[0]
        names += [model["name"] for model in found["registered_models"]]
        token = found.get("next_page_token", "")
        if not token:
            break
    assert sorted(names, reverse=True) == sorted(["wine", "forest", "Forest-2"], reverse=True)
    assert len(names) == 3


@pytest.mark.parametrize(
    ("location", "root"),
    [
        ("mlflow-artifacts:/cellar/wine", "mlflow-artifacts:/cellar/wine"),
        ("{store}/cellar", "mlflow-artifacts:/cellar"),
        ("{store}/", "mlflow-artifacts:/{id}"),
        ("", "mlflow-artifacts:/{id}"),
    ],
)
def test_an_artifact_location_in_the_store_is_kept_and_its_files_are_found(
    alice: Mlflow, settings: Any, location: str, root: str
) -> None:
    given = location.format(store=settings.STORE_URL.rstrip("/"))
    made = alice.done("POST", "experiments/create", {"name": "wine", "artifact_location": given})
    experiment = alice.done("GET", "experiments/get", made)["experiment"]
    assert experiment["artifact_location"] == root.format(id=made["experiment_id"])
    run = alice.done("POST", "runs/create", {**made, "start_time": 1})["run"]["info"]
    assert run["artifact_uri"] == f"{experiment['artifact_location']}/{run['run_id']}/artifacts"
    folder = run["artifact_uri"].removeprefix("mlflow-artifacts:/")
    proxy = "/api/2.0/mlflow-artifacts/artifacts"
    alice.done("PUT", f"{proxy}/{folder}/plots/a.txt", b"red")
    assert b"".join(alice.ask("GET", f"{proxy}/{folder}/plots/a.txt")) == b"red"
    listed = alice.done("GET", "artifacts/list", {"run_id": run["run_id"], "path": "plots"})
    assert [file["path"] for file in listed["files"]] == ["plots/a.txt"]


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("s3://bucket/wine", "outside the store of this server"),
        ("/mnt/wine", "outside the store of this server"),
        ("{store}-other/wine", "outside the store of this server"),
        ("mlflow-artifacts://elsewhere/wine", "it names a host"),
        ("mlflow-artifacts:/wine/../../x", ".."),
        ("mlflow-artifacts:/wine/artifacts", "'artifacts' is reserved"),
        ("mlflow-artifacts:/wine%2Fred", "characters %"),
        ("mlflow-artifacts:/" + "w" * 600, "the limit is 500"),
    ],
)
def test_an_artifact_location_elsewhere_is_refused_with_the_reason(
    alice: Mlflow, settings: Any, location: str, reason: str
) -> None:
    given = location.format(store=settings.STORE_URL.rstrip("/"))
    body = {"name": "wine", "artifact_location": given}
    status, code, sentence = alice.refused("POST", "experiments/create", body)
    assert (status, code) == (400, "INVALID_PARAMETER_VALUE")
    assert reason in sentence
    assert "Use mlflow-artifacts:/FOLDER" in sentence


def test_a_page_of_a_history_decodes_no_more_than_its_segments(
    alice: Mlflow, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = np.arange(20_000)
    services.append(run_id, [Points("loss", steps, steps / 2, steps * 10)])
    read: list[int] = []
    decoded = segments.decoded
    monkeypatch.setattr(segments, "decoded", lambda ids: read.append(len(ids)) or decoded(ids))
    values: list[float] = []
    token = ""
    while True:
        asked = {"run_id": run_id, "metric_key": "loss", "max_results": 3_000, "page_token": token}
        page = alice.done("GET", "metrics/get-history", asked)
        values += [metric["value"] for metric in page["metrics"]]
        token = page.get("next_page_token", "")
        if not token:
            break
    assert values == (steps / 2).tolist()
    assert max(read) <= 2


def test_a_history_of_a_clock_that_was_set_back_is_in_the_order_of_time(alice: Mlflow, run_id: str) -> None:
    steps = np.arange(15_000)
    times = np.concatenate([np.arange(9_000) + 50_000, np.arange(3_000), np.arange(3_000) + 100_000])
    services.append(run_id, [Points("loss", steps, steps, times)])
    asked = {"run_id": run_id, "metric_key": "loss", "max_results": 25_000}
    page = alice.done("GET", "metrics/get-history", asked)["metrics"]
    assert [metric["timestamp"] for metric in page] == sorted(times.tolist())
    window = {"run_ids": run_id, "metric_key": "loss", "start_step": 8_990, "end_step": 9_005}
    some = alice.done("GET", "metrics/get-history-bulk-interval", window)["metrics"]
    assert [metric["step"] for metric in some] == list(range(8_990, 9_006))
    asked = {"run_id": run_id, "metric_key": "loss", "max_results": 10}
    bulk = alice.done("GET", "metrics/get-history-bulk", asked)["metrics"]
    assert [metric["timestamp"] for metric in bulk] == list(range(10))


def test_the_pages_and_rest_show_aliases_stages_and_tags(
    models: None, alice: Mlflow, cast: Cast, browser: Any, api: Any
) -> None:
    alice.done("POST", "registered-models/alias", {"name": "wine", "version": "2", "alias": "champion"})
    alice.done(
        "POST", "model-versions/transition-stage", {"name": "wine", "version": "3", "stage": "Production"}
    )
    alice.done(
        "POST", "model-versions/set-tag", {"name": "wine", "version": "3", "key": "grape", "value": "<b>red"}
    )
    page = browser(cast.viewer).get("/models/vision/wine/").content.decode()
    assert "@champion" in page
    assert "Production" in page
    assert "grape = &lt;b&gt;red" in page
    assert "@champion v2" in browser(cast.viewer).get("/models/").content.decode()
    versions = {v["version"]: v for v in api(cast.owner).get("/api/v1/models").json()["results"]
                if v["model"] == "vision/wine"}  # fmt: skip
    assert versions[2]["aliases"] == ["champion"]
    assert (versions[3]["stage"], versions[3]["tags"]) == ("production", {"grape": "<b>red"})


@pytest.mark.parametrize(
    ("path", "more"),
    [
        ("model-versions/transition-stage", {"stage": "Staging"}),
        ("registered-models/alias", {"alias": "champion"}),
    ],
)
def test_a_version_enters_through_the_gate_of_its_model(
    models: None, alice: Mlflow, cast: Cast, path: str, more: dict[str, str]
) -> None:
    wine, body = Model.objects.get(name="wine"), {"name": "wine", "version": "3", **more}
    rule = {"suite": "held-out", "metric": "accuracy", "bound": 0.9}
    gates.set_policy(actor_of(cast.lead), wine, {"thresholds": [rule]})
    refused = (409, "INVALID_STATE", "held-out has not evaluated this version")
    status, code, sentence = alice.refused("POST", path, body)
    assert (status, code, sentence.partition(": ")[2]) == refused
    version = registry.numbered(wine, 3)
    gates.evaluate(actor_of(cast.owner), version, "held-out", ['{"id": 1, "metrics": {"accuracy": 1}}'])
    alice.done("POST", path, body)
