"""Runs and experiments over REST, as a process outside the platform uses them."""

from collections.abc import Callable
from typing import Any

import pytest
from rest_framework.test import APIClient

from tests.webapp.conftest import Cast
from webapp.experiments import services
from webapp.experiments.models import Run
from webapp.experiments.retention import remove_deleted
from webapp.experiments.silence import end_silent_runs

RUNS = "/api/v1/runs"
Api = Callable[..., APIClient]


@pytest.fixture
def client(cast: Cast, api: Api) -> Any:
    return api(cast.owner)


@pytest.fixture
def run(client: Any) -> dict[str, Any]:
    body = {"team": "vision", "experiment": "rates", "name": "first", "source": "sdk", "run_id": "ab" * 16}
    answer = client.post(RUNS, body, format="json")
    assert answer.status_code == 201, answer.content
    return dict(answer.json())


def log(client: Any, run: dict[str, Any], sequence: int, **batch: Any) -> Any:
    body = {"source": "laptop", "sequence": sequence, **batch}
    return client.post(f"{RUNS}/{run['id']}/log", body, format="json")


def points(*values: float | str) -> list[dict[str, Any]]:
    return [{"key": "train/loss", "points": [[step, value, 10 * step] for step, value in enumerate(values)]}]


def test_a_laptop_makes_a_run_logs_and_finishes_it(client: Any, run: dict[str, Any]) -> None:
    assert (run["state"], run["experiment"], run["job"]) == ("running", "rates", None)
    again = client.post(RUNS, {"team": "vision", "experiment": "rates", "run_id": run["id"]}, format="json")
    assert (again.status_code, again.json()["name"]) == (200, "first")
    batch = {
        "metrics": points(2.0, "NaN", 0.5),
        "parameters": {"lr": 0.1},
        "tags": {"stage": "dev"},
        "lineage": {"git_commit": "abc", "packages": {"torch": "2.4"}, "seed": 7, "Bad Name": 1},
    }
    assert log(client, run, 1, **batch).json() == {"sequence": 1}
    ended = client.post(
        f"{RUNS}/{run['id']}/finish", {"state": "succeeded", "ended_ms": 9}, format="json"
    ).json()
    assert (ended["state"], ended["ended_ms"]) == ("succeeded", 9)
    assert (ended["parameters"], ended["tags"], ended["metrics"]) == (
        {"lr": 0.1}, {"stage": "dev"}, {"train/loss": 0.5},
    )  # fmt: skip
    assert ended["lineage"]["reported_packages"] == {"torch": "2.4"}
    assert ended["lineage"]["git_commit"] == "abc"
    summary = client.get(f"{RUNS}/{run['id']}/metrics").json()["metrics"]["train/loss"]
    assert (summary["count"], summary["non_finite"], summary["min"], summary["min_step"]) == (3, 1, 0.5, 2)


def test_the_same_batch_again_changes_nothing(client: Any, run: dict[str, Any]) -> None:
    log(client, run, 1, metrics=points(2.0), tags={"stage": "dev"})
    log(client, run, 2, tags={"stage": "prod"}, parameters={"lr": 1})
    assert log(client, run, 1, metrics=points(2.0), tags={"stage": "dev"}).status_code == 200
    assert client.get(f"{RUNS}/{run['id']}").json()["tags"] == {"stage": "prod"}
    history = client.get(f"{RUNS}/{run['id']}/metrics/history", {"key": "train/loss"}).json()
    assert history == {"key": "train/loss", "points": [[0, 2.0, 0]], "next": None}


def test_a_batch_is_kept_whole_or_not_at_all(client: Any, run: dict[str, Any]) -> None:
    refused = log(client, run, 1, metrics=points(2.0), tags={f"t{place}": "" for place in range(501)})
    assert (refused.status_code, refused.json()["code"]) == (413, "too_large")
    assert client.get(f"{RUNS}/{run['id']}/metrics").json() == {"metrics": {}}
    assert log(client, run, 1, metrics=points(2.0)).status_code == 200
    assert client.get(f"{RUNS}/{run['id']}").json()["metrics"] == {"train/loss": 2.0}


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        ({"metrics": [{"key": "loss", "points": [[1.5, 2, 3]]}]}, "Point 0 is [1.5, 2, 3]; it must be"),
        ({"metrics": [{"key": "loss", "points": [[1, "nan", 3]]}]}, "Point 0"),
        ({"metrics": [{"key": "loss", "points": [[1, True, 3]]}]}, "Point 0"),
        ({"metrics": [{"key": "x" * 251, "points": []}]}, "250"),
        ({"metric": []}, "there is no such field"),
        ({"tags": {"a": 1}}, "tag a is not valid: 1 is not text"),
    ],
)
def test_a_wrong_batch_is_refused_with_the_reason(
    client: Any, run: dict[str, Any], batch: dict[str, Any], words: str
) -> None:
    refused = log(client, run, 1, **batch)
    assert refused.status_code == 400
    assert words in refused.content.decode().replace("\\", "")


def test_history_and_curves_have_pages_windows_and_an_etag(client: Any, run: dict[str, Any]) -> None:
    log(client, run, 1, metrics=points(*range(10), "Infinity"))
    address = f"{RUNS}/{run['id']}/metrics/history"
    first = client.get(address, {"key": "train/loss", "limit": 6}).json()
    rest = client.get(address, {"key": "train/loss", "cursor": first["next"]}).json()
    assert [value for _, value, _ in first["points"] + rest["points"]] == [*range(10), "Infinity"]
    asked = {"runs": run["id"], "key": "train/loss", "from": "2", "to": "5", "columns": 100}
    answer = client.get(f"{RUNS}/curves", asked)
    assert answer.json()["curves"][run["id"]]["mean"] == [2, 3, 4, 5]
    again = client.get(f"{RUNS}/curves", asked, headers={"If-None-Match": answer.headers["ETag"]})
    assert again.status_code == 304
    log(client, run, 2, metrics=points(7.0))
    assert (
        client.get(f"{RUNS}/curves", asked, headers={"If-None-Match": answer.headers["ETag"]}).status_code
        == 200
    )
    for x in ("wall", "relative", "metric:train/loss", "metric:unknown"):
        assert (
            client.get(f"{RUNS}/curves", {"runs": run["id"], "key": "train/loss", "x": x}).status_code == 200
        ), x
    for wrong in (
        {"x": "epoch"},
        {"from": "5", "to": "2"},
        {"from": "nan", "to": "1"},
        {"columns": "0"},
        {"runs": ""},
    ):
        assert client.get(f"{RUNS}/curves", {**asked, **wrong}).status_code == 400, wrong
    for cursor in ("1", "1.2.x", f"{1 << 63}.1.1"):
        assert client.get(address, {"key": "train/loss", "cursor": cursor}).status_code == 400


def test_runs_are_found_by_filter_order_and_cursor(client: Any, run: dict[str, Any]) -> None:
    ids = {}
    for place, loss in enumerate((0.3, 0.1, 0.2)):
        made = client.post(
            RUNS, {"team": "vision", "experiment": "rates", "name": f"lr {place}"}, format="json"
        ).json()
        log(client, made, 1, metrics=points(loss), parameters={"lr": place})
        ids[made["id"]] = loss
    asked = {"filter": "metrics.train/loss < 0.25 and params.lr >= 1", "order": "metrics.train/loss"}
    assert [line["metrics"]["train/loss"] for line in client.get(RUNS, asked).json()["results"]] == [0.1, 0.2]
    page = client.get(
        RUNS, {**asked, "limit": 1, "team": "vision", "experiment": run["experiment_id"]}
    ).json()
    assert len(client.get(RUNS, {"experiment": "rates"}).json()["results"]) == 4
    body = {"filter": asked["filter"], "order": [asked["order"]], "cursor": page["next"]}
    found = client.post(f"{RUNS}/search", body, format="json").json()
    assert [line["metrics"]["train/loss"] for line in found["results"]] == [0.2]
    assert found["next"] is None
    refused = client.get(RUNS, {"filter": "metrics.loss <"}).json()
    assert refused["code"] == "filter_invalid"
    assert refused["detail"].startswith("not valid at character 15: expected a value")


def test_a_run_is_changed_archived_deleted_and_restored(client: Any, run: dict[str, Any]) -> None:
    address = f"{RUNS}/{run['id']}"
    client.patch(address, {"tags": {"stage": "dev", "old": "x"}, "parameters": {"lr": 1}}, format="json")
    changes = {
        "name": "best",
        "description": "# Why",
        "group": "seeds",
        "tags": {"old": None},
        "archived": True,
    }
    changed = client.patch(address, changes, format="json").json()
    assert (changed["name"], changed["group"], changed["tags"]) == ("best", "seeds", {"stage": "dev"})
    assert client.get(RUNS).json()["results"] == []
    assert [line["id"] for line in client.get(RUNS, {"view": "archived"}).json()["results"]] == [run["id"]]
    client.patch(address, {"archived": False}, format="json")
    assert client.delete(address).status_code == 204
    for gone in (client.get(address), log(client, run, 5), client.get(f"{address}/metrics")):
        assert gone.status_code == 404
    assert client.post(f"{address}/restore").json()["deleted_ms"] is None
    bulk = {"ids": [run["id"]], "action": "tag", "tags": {"stage": "prod"}}
    assert client.post(f"{RUNS}/bulk", bulk, format="json").json() == {"changed": 1}


def test_an_experiment_is_made_changed_deleted_and_restored(client: Any) -> None:
    made = client.post(
        "/api/v1/experiments", {"team": "vision", "name": "rates", "tags": {"a": "b"}}, format="json"
    )
    address = f"/api/v1/experiments/{made.json()['id']}"
    taken = client.post("/api/v1/experiments", {"team": "vision", "name": "rates"}, format="json")
    assert (made.status_code, taken.status_code, taken.json()["code"]) == (201, 409, "duplicate_name")
    changed = client.patch(
        address, {"name": "new", "description": "# Why", "archived": True}, format="json"
    ).json()
    assert (changed["name"], changed["archived_ms"] is not None) == ("new", True)
    assert client.get("/api/v1/experiments").json()["results"] == []
    assert client.delete(address).status_code == 204
    assert client.get(address).status_code == 404
    assert client.post(f"{address}/restore").json()["description"] == "# Why"


def test_a_silent_run_fails_and_goes_on_when_it_reports_again(
    client: Any, run: dict[str, Any], settings: Any
) -> None:
    now = Run.objects.get(id=run["id"]).reported_ms or 0
    assert end_silent_runs(now + settings.RUN_SILENCE_SECONDS * 1000) == 0
    assert end_silent_runs(now + settings.RUN_SILENCE_SECONDS * 1000 + 1) == 1
    silent = client.get(f"{RUNS}/{run['id']}").json()
    assert (silent["state"], silent["ended_ms"]) == ("failed", now)
    log(client, run, 1)
    alive = client.get(f"{RUNS}/{run['id']}").json()
    assert (alive["state"], alive["ended_ms"]) == ("running", None)
    client.post(f"{RUNS}/{run['id']}/finish", {"state": "failed"}, format="json")
    log(client, run, 2)
    assert client.get(f"{RUNS}/{run['id']}").json()["state"] == "failed"


def test_a_run_of_the_bare_api_is_never_silent(client: Any) -> None:
    client.post(RUNS, {"team": "vision"}, format="json")
    assert end_silent_runs(1 << 52) == 0


def test_retention_removes_runs_with_points_and_files(
    client: Any, cast: Cast, run: dict[str, Any], actor: Any, settings: Any
) -> None:
    log(client, run, 1, metrics=points(2.0))
    alice, row = actor(cast.owner), Run.objects.get(id=run["id"])
    services.put_file(alice, row, "notes.txt", iter([b"hello"]))
    experiment = row.experiment
    services.delete_experiment(alice, experiment)
    row.refresh_from_db()
    assert row.deleted_ms is not None
    limit = row.deleted_ms + settings.RUN_RETENTION_DAYS * 86_400_000
    assert (remove_deleted(limit), remove_deleted(limit + 1), remove_deleted(limit + 1)) == (0, 1, 0)
    assert client.post(f"{RUNS}/{run['id']}/restore").status_code == 404
    assert not type(experiment).objects.filter(id=experiment.pk).exists()


def test_a_child_outlives_its_removed_parent(
    client: Any, cast: Cast, run: dict[str, Any], actor: Any
) -> None:
    child = client.post(
        RUNS, {"team": "vision", "experiment": "rates", "parent": run["id"]}, format="json"
    ).json()
    assert child["parent"] == run["id"]
    client.delete(f"{RUNS}/{run['id']}")
    client.post(f"{RUNS}/{child['id']}/restore")
    remove_deleted(1 << 52)
    assert client.get(f"{RUNS}/{child['id']}").json()["parent"] is None


def test_a_token_of_one_team_sees_no_run_of_another(cast: Cast, api: Api, run: dict[str, Any]) -> None:
    stranger = api(cast.outsider, "nlp")
    assert stranger.get(RUNS).json()["results"] == []
    assert stranger.get(RUNS, {"team": "vision"}).json()["results"] == []
    for answer in (
        stranger.get(f"{RUNS}/{run['id']}"),
        stranger.get(f"{RUNS}/curves", {"runs": run["id"], "key": "train/loss"}),
        log(stranger, run, 1, metrics=points(1.0)),
        stranger.post(f"{RUNS}/bulk", {"ids": [run["id"]], "action": "delete"}, format="json"),
        stranger.post(RUNS, {"team": "vision", "experiment": "rates"}, format="json"),
        stranger.post(RUNS, {"experiment_id": run["experiment_id"]}, format="json"),
        stranger.post(RUNS, {"team": "nlp", "parent": run["id"]}, format="json"),
    ):
        assert answer.status_code == 404, answer.content
    taken = stranger.post(RUNS, {"team": "nlp", "run_id": run["id"]}, format="json")
    assert (taken.status_code, taken.json()["code"]) == (409, "idempotency_conflict")
