"""Who gets what of every endpoint of the MLflow API: one row each, one letter a person.

Y done · F may not (403) · N does not exist for them (404) · A has no token (401)
"""

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.db import transaction

from tests.webapp.conftest import Cast, make_cast, make_teams
from tests.webapp.mlflow.conftest import Mlflow, token_of
from webapp.accounts.queries import actor_of
from webapp.experiments import services as experiments
from webapp.mlflow import routes
from webapp.registry import services as registry

PEOPLE = ("outsider", "viewer", "member", "owner", "lead", "admin")
LETTERS = {200: "Y", 403: "F", 404: "N", 401: "A"}
READ = "A N Y Y Y Y Y"
NOTHING = "A Y Y Y Y Y Y"  # the outsider gets an empty answer, as of a run that is not there
EDIT = "A N F Y Y Y Y"
DELETE = "A N F F Y Y Y"
OF_OWN_TEAM = "A Y Y Y Y Y Y"  # the outsider asks for things of their own team
NEW = "A Y F Y Y Y Y"
PREFIXES = {"/api/2.0/mlflow/": routes.TRACKING, "/api/2.0/mlflow-artifacts/": routes.PROXY,
            "/api/3.0/mlflow/": routes.WORKSPACES, "/ajax-api/2.0/mlflow/": routes.PAGE_ONLY,
            "/": routes.PLAIN}  # fmt: skip


@dataclass(frozen=True)
class Row:
    method: str
    path: str
    expected: str
    body: Any = field(default_factory=dict)
    address: str = ""

    @property
    def sent(self) -> str:
        return self.address or self.path


RUN = {"run_id": "{run}"}
EXPERIMENT = {"experiment_id": "{experiment}"}
MODEL = {"name": "wine"}
VERSION = {"name": "wine", "version": "1"}
TAG = {"key": "k", "value": "v"}
FILE = "{experiment}/{run}/artifacts/notes.txt"
PARTS = {"upload_id": "{upload}"}


def rows() -> Iterator[Row]:
    yield Row("POST", "experiments/create", NEW, {"name": "another"})
    yield Row("GET", "experiments/get", READ, EXPERIMENT)
    yield Row("GET", "experiments/get-by-name", READ, {"experiment_name": "wine"})
    yield Row("POST", "experiments/search", OF_OWN_TEAM, {"max_results": 5})
    yield Row("GET", "experiments/search", OF_OWN_TEAM, {"max_results": 5})
    yield Row("POST", "experiments/update", EDIT, {**EXPERIMENT, "new_name": "ale"})
    yield Row("POST", "experiments/delete", DELETE, EXPERIMENT)
    yield Row("POST", "experiments/restore", EDIT, {"experiment_id": "{deleted}"})
    yield Row("POST", "experiments/set-experiment-tag", EDIT, {**EXPERIMENT, **TAG})
    yield Row("POST", "experiments/delete-experiment-tag", EDIT, {**EXPERIMENT, "key": "a"})
    yield from run_rows()
    yield from model_rows()
    yield from file_rows()


def run_rows() -> Iterator[Row]:
    yield Row("POST", "runs/create", EDIT, EXPERIMENT)
    yield Row("GET", "runs/get", READ, RUN)
    yield Row("POST", "runs/update", EDIT, {**RUN, "status": "FINISHED"})
    yield Row("POST", "runs/delete", DELETE, RUN)
    yield Row("POST", "runs/restore", EDIT, RUN)
    yield Row("POST", "runs/search", OF_OWN_TEAM, {"experiment_ids": ["{experiment}"]})
    yield Row("POST", "runs/log-metric", EDIT, {**RUN, "key": "loss", "value": 1, "timestamp": 1})
    yield Row("POST", "runs/log-batch", EDIT, {**RUN, "params": [{"key": "p", "value": "1"}]})
    yield Row("POST", "runs/log-parameter", EDIT, {**RUN, **TAG})
    yield Row("POST", "runs/set-tag", EDIT, {**RUN, **TAG})
    yield Row("POST", "runs/delete-tag", EDIT, {**RUN, "key": "a"})
    record = '{"artifact_path": "m", "flavors": {}, "utc_time_created": "", "run_id": ""}'
    yield Row("POST", "runs/log-model", EDIT, {**RUN, "model_json": record})
    yield Row("POST", "runs/log-inputs", EDIT, RUN)
    yield Row("POST", "runs/outputs", EDIT, {**RUN, "models": [{"model_id": "m-1"}]})
    yield Row("GET", "metrics/get-history", NOTHING, {**RUN, "metric_key": "loss"})
    yield Row("GET", "metrics/get-history-bulk", NOTHING, {**RUN, "metric_key": "loss"})
    bulk = {"run_ids": ["{run}"], "metric_key": "loss"}
    yield Row("GET", "metrics/get-history-bulk-interval", NOTHING, bulk)
    yield Row("GET", "artifacts/list", READ, RUN)
    yield Row(
        "GET", "model-versions/get-artifact", "A N N N N N N", {**VERSION, "path": "MLmodel"}
    )  # kept elsewhere
    yield Row("POST", "experiments/search-datasets", OF_OWN_TEAM, {"experiment_ids": ["{experiment}"]})
    yield Row("POST", "upload-artifact", EDIT, "bytes", "upload-artifact?run_uuid={run}&path=a.txt")
    yield Row("GET", "get-artifact", READ, {**RUN, "path": "notes.txt"})
    one, address = "logged-models/<str:model_id>", "logged-models/{logged}"
    yield Row("POST", "logged-models", EDIT, EXPERIMENT)
    yield Row("POST", "logged-models/search", OF_OWN_TEAM, {"experiment_ids": ["{experiment}"]})
    yield Row("GET", one, READ, address=address)
    yield Row("PATCH", one, EDIT, {"status": "LOGGED_MODEL_READY"}, address)
    yield Row("DELETE", one, EDIT, address=address)
    yield Row("PATCH", f"{one}/tags", EDIT, {"tags": [TAG]}, f"{address}/tags")
    yield Row("DELETE", f"{one}/tags/<path:tag_key>", EDIT, address=f"{address}/tags/a")
    yield Row("POST", f"{one}/params", EDIT, {"params": [TAG]}, f"{address}/params")
    yield Row("GET", f"{one}/artifacts/directories", READ, address=f"{address}/artifacts/directories")
    wanted = {"artifact_file_path": "MLmodel"}
    yield Row("GET", f"{one}/artifacts/files", READ, wanted, f"{address}/artifacts/files")


def model_rows() -> Iterator[Row]:
    yield Row("POST", "registered-models/create", NEW, {"name": "another"})
    yield Row("GET", "registered-models/get", READ, MODEL)
    yield Row("POST", "registered-models/rename", EDIT, {**MODEL, "new_name": "ale"})
    yield Row("PATCH", "registered-models/update", EDIT, {**MODEL, "description": "red"})
    yield Row("DELETE", "registered-models/delete", DELETE, MODEL)
    yield Row("GET", "registered-models/search", OF_OWN_TEAM)
    yield Row("GET", "registered-models/get-latest-versions", READ, MODEL)
    yield Row("POST", "registered-models/get-latest-versions", READ, MODEL)
    yield Row("POST", "registered-models/set-tag", EDIT, {**MODEL, **TAG})
    yield Row("DELETE", "registered-models/delete-tag", EDIT, {**MODEL, "key": "k"})
    yield Row("POST", "registered-models/alias", EDIT, {**VERSION, "alias": "new"})
    yield Row("DELETE", "registered-models/alias", EDIT, {**MODEL, "alias": "champion"})
    yield Row("GET", "registered-models/alias", READ, {**MODEL, "alias": "champion"})
    yield Row("POST", "model-versions/create", EDIT, {**MODEL, "source": "s3://somewhere/model"})
    yield Row("GET", "model-versions/get", READ, VERSION)
    yield Row("PATCH", "model-versions/update", EDIT, {**VERSION, "description": "better"})
    yield Row("DELETE", "model-versions/delete", DELETE, VERSION)
    yield Row("GET", "model-versions/search", OF_OWN_TEAM)
    yield Row("POST", "model-versions/transition-stage", EDIT, {**VERSION, "stage": "Staging"})
    yield Row("GET", "model-versions/get-download-uri", READ, VERSION)
    yield Row("POST", "model-versions/set-tag", EDIT, {**VERSION, **TAG})
    yield Row("DELETE", "model-versions/delete-tag", EDIT, {**VERSION, "key": "k"})


def file_rows() -> Iterator[Row]:
    yield Row("GET", "artifacts", READ, {"path": "{experiment}/{run}/artifacts"})
    one = "artifacts/<path:artifact_path>"
    yield Row("GET", one, READ, address=f"artifacts/{FILE}")
    yield Row("PUT", one, EDIT, address=f"artifacts/{FILE}")
    yield Row("DELETE", one, EDIT, address=f"artifacts/{FILE}")
    large = {"path": "large.bin", "num_parts": 1}
    yield Row("POST", "mpu/create/<path:artifact_path>", EDIT, large, f"mpu/create/{FILE}")
    # Only who announced the file may complete or abort it.
    yield Row("POST", "mpu/complete/<path:artifact_path>", "A N N N Y N N", PARTS, f"mpu/complete/{FILE}")
    yield Row("POST", "mpu/abort/<path:artifact_path>", "A N N N Y N N", PARTS, f"mpu/abort/{FILE}")
    yield Row("GET", "workspaces", OF_OWN_TEAM)
    yield Row("GET", "workspaces/<str:workspace_name>", READ, address="workspaces/vision")


ROWS = list(rows())


@pytest.fixture(scope="module")
def stage(
    django_db_setup: None, django_db_blocker: Any
) -> Iterator[tuple[dict[str, Mlflow], dict[str, str]]]:
    """Built once: every request of these tests is taken back."""
    with django_db_blocker.unblock(), transaction.atomic():
        make_teams()
        cast = make_cast()
        teams = {"outsider": "nlp"}
        people = {name: Mlflow(token_of(getattr(cast, name), teams.get(name, "vision"))) for name in PEOPLE}
        yield {"anonymous": Mlflow(""), **people}, build(cast)
        transaction.set_rollback(True)


def build(cast: Cast) -> dict[str, str]:
    alice = actor_of(cast.owner)
    deleted = experiments.create_experiment(alice, "vision", "deleted")
    experiments.delete_experiment(alice, deleted)
    experiment = experiments.create_experiment(alice, "vision", "wine", tags={"a": "b"})
    run = experiments.create_run(alice, experiment, tags={"a": "b"})
    experiments.put_file(alice, run, "notes.txt", io.BytesIO(b"notes"))
    upload = experiments.start_upload(alice, run, "large.bin", 1)
    experiments.receive_part(upload.id, 1, io.BytesIO(b"large"))
    logged = experiments.create_logged_model(alice, experiment, "forest", tags={"a": "b"})
    experiments.put_file(alice, logged, "MLmodel", io.BytesIO(b"flavors"))
    version = registry.register_logged(alice, registry.create_model(alice, "vision", "wine"), "s3://x/y")
    registry.set_alias(alice, version, "champion")
    ids = {"experiment": experiment.pk, "deleted": deleted.pk, "run": run.id, "upload": upload.id}
    return {name: str(value) for name, value in {**ids, "logged": logged.id}.items()}


def filled(value: Any, ids: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: filled(inner, ids) for key, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner, ids) for inner in value]
    named = isinstance(value, str) and value.startswith("{") and " " not in value
    return value.format(**ids) if named else value


def prefix_of(row: Row) -> str:
    return next(
        prefix
        for prefix, endpoints in PREFIXES.items()
        if any((e.method, e.path) == (row.method, row.path) for e in endpoints)
    )


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.method} {row.path}")
def test_each_person_gets_what_the_table_says(
    row: Row, stage: tuple[dict[str, Mlflow], dict[str, str]]
) -> None:
    people, ids = stage
    letters = []
    for person in people.values():
        body: Any = b"bytes" if row.method == "PUT" or row.body == "bytes" else filled(row.body, ids)
        with transaction.atomic():
            response = person.ask(row.method, prefix_of(row) + row.sent.format(**ids), body)
            transaction.set_rollback(True)
        letters.append(
            LETTERS.get(
                response.status_code, f"{response.status_code} {getattr(response, 'content', b'')[:300]!r}"
            )
        )
    assert " ".join(letters) == row.expected


@pytest.mark.parametrize("path", ["get-history", "get-history-bulk", "get-history-bulk-interval"])
def test_the_points_of_another_teams_run_are_those_of_no_run(
    path: str, stage: tuple[dict[str, Mlflow], dict[str, str]]
) -> None:
    people, ids = stage
    with transaction.atomic():
        point = {"run_id": ids["run"], "key": "seen", "value": 0.5, "timestamp": 1}
        people["owner"].done("POST", "runs/log-metric", point)
        asked = {"run_id": ids["run"], "run_ids": ids["run"], "metric_key": "seen"}
        seen = [people[who].done("GET", f"metrics/{path}", asked) for who in ("owner", "outsider")]
        transaction.set_rollback(True)
    assert [len(answer.get("metrics", [])) for answer in seen] == [1, 0]


def test_every_endpoint_stands_in_the_table() -> None:
    endpoints = {(e.method, e.path) for known in PREFIXES.values() for e in known}
    assert {(row.method, row.path) for row in ROWS} == endpoints


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.method} {row.path}")
def test_what_another_team_has_looks_like_what_is_not_there(
    row: Row, stage: tuple[dict[str, Mlflow], dict[str, str]]
) -> None:
    people, ids = stage
    if row.expected.split()[1] != "N":
        return
    nowhere = {
        "experiment": "999999999",
        "deleted": "999999998",
        "run": "0" * 32,
        "upload": "0" * 32,
        "logged": "m-0",
    }
    answers = []
    for known in (ids, nowhere):
        body: Any = b"bytes" if row.method == "PUT" or row.body == "bytes" else filled(row.body, known)
        with transaction.atomic():
            response = people["outsider"].ask(row.method, prefix_of(row) + row.sent.format(**known), body)
            transaction.set_rollback(True)
        text = response.content.decode()
        for name, value in sorted(known.items(), key=lambda item: -len(item[1])):
            if f"{{{name}}}" in f"{row.body} {row.address}":
                text = re.sub(rf"(?<!\w){value}(?!\w)", name, text)
        answers.append((response.status_code, text))
    assert answers[0] == answers[1]
