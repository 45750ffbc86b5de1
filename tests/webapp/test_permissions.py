"""Who gets what of every URL, page and REST method: one row each, one letter a person. What has no row fails.

Y done or shown · U the form comes back with the refusal (422) · F may not (403) · N does not exist for them (404)
· A who are you (401) · L sent to the login
"""

import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from django.db import transaction
from django.http import HttpResponseBase
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from rest_framework.test import APIClient

from tests.webapp.alert_permission_rows import alert_rows
from tests.webapp.conftest import Cast, make_cast, make_teams, of_the_test, signed_in, with_token
from tests.webapp.endpoint_permission_rows import endpoint_rows
from tests.webapp.experiment_permission_rows import experiment_rows
from tests.webapp.job_permission_rows import job_rows
from tests.webapp.lineage_permission_rows import lineage_rows
from tests.webapp.model_permission_rows import model_rows
from tests.webapp.permission_rows import (
    ADMINS,
    EVERYBODY,
    LEADS,
    MEMBERS,
    NO_TENSORBOARDS,
    OF_TEAM,
    OPERATORS,
    OWN_OR_LEAD,
    SIGNED_IN,
    WHILE_OUT,
    WHILE_STOPPING,
    Row,
)
from tests.webapp.rest_permission_rows import api_rows
from tests.webapp.retraining_permission_rows import retraining_rows
from tests.webapp.storage_permission_rows import storage_rows
from tests.webapp.world import World, build
from webapp.sockets import subjects

PEOPLE = ("anonymous", "outsider", "viewer", "member", "owner", "lead", "admin")
METHODS = ("get", "post", "put", "patch", "delete")
LETTERS = {"F": 403, "N": 404, "A": 401, "U": 422}

# A token is of a team; even an admin's operates nothing, unless it was made for that: see test_admin_tokens.
BY_TOKEN = {
    OPERATORS: "F F F F F F",
    ADMINS: "N F F F F F",
    "L F F F F F 409": "F F F F F F",
    WHILE_OUT: "F F F F F F",
    WHILE_STOPPING: "N F F F F F",
}


FOR_ALL = (
    "work", "cluster", "audit", "report", "service-levels", "efficiency", "efficiency/chargeback", "shares", "nodes",
    "nodes/map", "queue", "queue/forecasts", "queue/next-move", "queue/what-if",
)  # fmt: skip


def pages() -> Iterator[Row]:
    yield Row("get", "healthz", EVERYBODY)
    yield Row("get", "livez", EVERYBODY)
    yield Row("get", "readyz", EVERYBODY)
    yield Row("get", "", SIGNED_IN)
    for page in FOR_ALL:
        yield Row("get", f"{page}/", SIGNED_IN)
    yield Row("get", "metrics", SIGNED_IN.replace("L", "A"))
    yield Row("get", "search/", SIGNED_IN, "search/?q=bytelm")
    level, first = "service-levels/<str:code>/", "service-levels/recovery_time/"
    yield Row("get", level, SIGNED_IN, first)
    yield Row("post", level, OPERATORS, first, {"target": "95", "limit": "600"})
    yield Row("post", f"{level}reset/", OPERATORS, f"{first}reset/")
    yield Row("get", "admin/login/", OPERATORS)
    yield Row("get", "admin/password_change/", EVERYBODY)
    yield from accounts_rows()
    yield from admin_rows()
    yield from cluster_rows()
    yield from job_rows()
    yield from alert_rows()
    yield from experiment_rows()
    yield from endpoint_rows()
    yield from retraining_rows()
    board = "^tensorboard/(?P<key>[^/]+)/(?P<path>.*)$"
    yield Row("get", board, NO_TENSORBOARDS, "tensorboard/run-{job}/")
    yield Row("post", board, NO_TENSORBOARDS, "tensorboard/experiment-{experiment}/data/runs")
    yield Row("post", "tensorboard/<str:key>/start", NO_TENSORBOARDS, "tensorboard/run-{job}/start")
    yield Row("get", "datasets/", SIGNED_IN)
    yield from dataset_rows()
    yield from model_rows()
    yield from lineage_rows()
    yield from storage_rows()
    yield Row("get", "deployments/", SIGNED_IN)
    begun = {"model_version": "{model_version}", "targets": ["{node}"]}
    yield Row("get", "deployments/create/", MEMBERS, "deployments/create/?model_version={model_version}")
    yield Row("post", "deployments/create/", MEMBERS, body=begun)
    yield Row("get", "deployments/history/", SIGNED_IN)
    yield Row("post", "deployments/plan/", MEMBERS, body=begun)
    yield Row("get", "deployments/<str:deployment_id>/", OF_TEAM, "deployments/{deployment}/")
    yield Row("get", "deployments/<str:deployment_id>/chunks/", OF_TEAM, "deployments/{deployment}/chunks/")
    switch = "deployments/<str:deployment_id>"
    yield Row("post", f"{switch}/pin/", MEMBERS, "deployments/{deployment}/pin/", {"pin": "1"})
    yield Row("post", f"{switch}/retry/", MEMBERS, "deployments/{deployment}/retry/")
    yield Row("post", f"{switch}/cancel/", OWN_OR_LEAD, "deployments/{deployment}/cancel/")
    yield Row("post", f"{switch}/promote/", OWN_OR_LEAD, "deployments/{deployment}/promote/")
    yield Row("post", f"{switch}/rollback/", OWN_OR_LEAD, "deployments/{deployment}/rollback/")
    yield Row("get", "api/docs/", SIGNED_IN)
    yield Row("get", "docs/errors", SIGNED_IN)


def dataset_rows() -> Iterator[Row]:
    # Nobody has allowed a place, so whoever may register hears that the address is refused.
    placed = {"team": "vision", "name": "new", "source_url": "file:///data", "purpose": "train"}
    yield Row("post", "datasets/register/", "L U F U U U U", body=placed)
    one, address = "datasets/<slug:team>/<str:name>/", "datasets/vision/{dataset}/"
    yield Row("get", one, OF_TEAM, address)
    yield Row("post", f"{one}describe/", MEMBERS, f"{address}describe/", {"description": "Text"})
    asked = {"team": "vision", "purpose": "train"}
    yield Row("post", f"{one}access/", LEADS, f"{address}access/", asked)
    decided = {"decision": "approve", "days": "30"}
    yield Row(
        "post", f"{one}access/<str:request_id>/", OWN_OR_LEAD, f"{address}access/{{access_request}}/", decided
    )
    version = "versions/<str:snapshot_id>"
    review, decision = f"{address}versions/{{snapshot}}/review/", {"decision": "release"}
    yield Row("post", f"{one}{version}/review/", MEMBERS, review, decision)
    # It was uploaded: it has no source to compare with, and no registration to resume.
    yield Row(
        "post", f"{one}{version}/check/", "L N 400 400 400 400 400", f"{address}versions/{{snapshot}}/check/"
    )
    yield Row(
        "post", f"{one}{version}/resume/", "L N F 400 400 400 400", f"{address}versions/{{snapshot}}/resume/"
    )
    yield Row("post", f"{one}{version}/delete/", OWN_OR_LEAD, f"{address}versions/{{snapshot}}/delete/")


def accounts_rows() -> Iterator[Row]:
    yield Row("get", "login/", EVERYBODY)
    yield Row("post", "login/", "U Y Y Y Y Y Y", body={"username": "alice", "password": "guess"})
    link = "set-password/<str:uid>/<str:token>/"
    yield Row("get", link, EVERYBODY.replace("Y", "N"), "set-password/MQ/invented/")
    yield Row("post", link, EVERYBODY.replace("Y", "N"), "set-password/MQ/invented/")
    yield Row("post", "logout/", EVERYBODY.replace("Y", "L"))
    yield Row("get", "settings/", SIGNED_IN)
    yield Row("post", "settings/profile/", SIGNED_IN, body={"first_name": "A"})
    yield Row("post", "settings/mail/", SIGNED_IN, body={"mail_idle": "on"})
    yield Row("post", "settings/password/", "L U U U U U U", body={"old_password": "not it"})
    new = {"name": "ci", "team": "vision", "days": 1}
    yield Row("post", "settings/tokens/", "L N Y Y Y Y Y", body=new)
    revoke = "settings/tokens/{token}/revoke/"
    yield Row("post", "settings/tokens/<int:token_id>/revoke/", "L N N N Y N Y", revoke)
    team = "teams/<slug:slug>/"
    for section in ("", "share/", "members/", "costs/", "secrets/"):
        yield Row("get", team + section, OF_TEAM, f"teams/vision/{section}")
    yield Row("get", team + "use.json", OF_TEAM, "teams/vision/use.json")
    quota = {"gpu_type": "cpu", "guaranteed": 1, "maximum": 2, "version": 1}
    yield Row("post", team + "quota/", LEADS, "teams/vision/quota/", quota)
    carol = {"username": "carol", "role": "viewer"}
    yield Row("post", team + "members/", LEADS, "teams/vision/members/", carol)
    role = "teams/vision/members/{member}/role/"
    yield Row("post", team + "members/<int:user_id>/role/", LEADS, role, {"role": "viewer"})
    remove = "teams/vision/members/{member}/remove/"
    yield Row("post", team + "members/<int:user_id>/remove/", LEADS, remove)
    yield Row("post", team + "secrets/", LEADS, "teams/vision/secrets/", {"name": "KEY", "value": "abcdef"})
    delete = "teams/vision/secrets/{secret}/delete/"
    yield Row("post", team + "secrets/<str:name>/delete/", LEADS, delete)


def admin_rows() -> Iterator[Row]:
    for page in ("users", "teams", "departments", "prices", "quotas"):
        yield Row("get", f"manage/{page}/", OPERATORS)
    yield Row("post", "manage/users/invite/", OPERATORS, body={"username": "dave"})
    for verb in ("reset-password", "deactivate", "reactivate", "admin"):
        yield Row("post", f"manage/users/<str:username>/{verb}/", OPERATORS, f"manage/users/bob/{verb}/")
    team = {"slug": "robots", "name": "Robots", "weight": 1}
    yield Row("post", "manage/teams/create/", OPERATORS, body=team)
    yield Row("post", "manage/teams/<slug:slug>/change/", OPERATORS, "manage/teams/vision/change/", team)
    busy = "L F F F F F 409"  # alice's job has not ended
    yield Row("post", "manage/teams/<slug:slug>/archive/", busy, "manage/teams/vision/archive/")
    yield Row("post", "manage/teams/<slug:slug>/restore/", OPERATORS, "manage/teams/vision/restore/")
    department = "manage/departments/<slug:slug>"
    made = {"slug": "product", "name": "Product", "weight": 1}
    yield Row("post", "manage/departments/create/", OPERATORS, body=made)
    yield Row("post", f"{department}/change/", OPERATORS, "manage/departments/{department}/change/", made)
    full = "L F F F F F 409"  # vision is in it
    yield Row("post", f"{department}/delete/", full, "manage/departments/{department}/delete/")
    yield Row("post", "manage/prices/set/", OPERATORS, body={"gpu_type": "cpu", "dollars": "0.5"})


def cluster_rows() -> Iterator[Row]:
    yield Row("get", "nodes/<str:node_id>/", SIGNED_IN, "nodes/{node}/")
    for verb in ("drain", "resume", "revoke", "readmit", "mark", "notice"):
        yield Row("post", f"nodes/<str:node_id>/{verb}/", OPERATORS, f"nodes/{{node}}/{verb}/")
    yield Row("get", "nodes/tokens/", OPERATORS)
    yield Row("post", "nodes/tokens/", OPERATORS, body={"name": "rack 4", "hours": 1})
    yield Row("post", "nodes/<str:node_id>/return/", WHILE_OUT, "nodes/{node}/return/")
    yield Row("get", "nodes/maintenance/", SIGNED_IN)
    window = {"nodes": "{node}", "begins": "0", "hours": "1"}
    yield Row("post", "nodes/maintenance/", OPERATORS, body=window)
    cancel = "nodes/maintenance/{window}/cancel/"
    yield Row("post", "nodes/maintenance/<int:window_id>/cancel/", OPERATORS, cancel)
    revoke = "nodes/tokens/{bootstrap_token}/revoke/"
    yield Row("post", "nodes/tokens/<int:token_id>/revoke/", OPERATORS, revoke)


ROWS = [*pages(), *api_rows()]
LIVE = {
    "team:vision": "N N Y Y Y Y Y",
    "job:{job}": "N N Y Y Y Y Y",
    "run:{run}": "N N Y Y Y Y Y",
    "experiment:{experiment}": "N N Y Y Y Y Y",
    "sweep:{sweep}": "N N Y Y Y Y Y",
    "sweeps:vision": "N N Y Y Y Y Y",
    "endpoint:{endpoint_id}": "N N Y Y Y Y Y",
    "endpoints:vision": "N N Y Y Y Y Y",
    "report:{report}": "N N Y Y Y Y Y",
    "jobs:vision": "N N Y Y Y Y Y",
    "models:vision": "N N Y Y Y Y Y",
    "deployment:{deployment}": "N N Y Y Y Y Y",
    "progress:{deployment}": "N N Y Y Y Y Y",
    "deployments:vision": "N N Y Y Y Y Y",
    "node:{node}": "N Y Y Y Y Y Y",
    "whatif:{what_if}": "N N N N Y N N",  # a question is its asker's
    "cluster:": "N Y Y Y Y Y Y",
    "alerts:": "N Y Y Y Y Y Y",  # a bare hint that the number of the badge changed
    "audit:": "N N N N N N Y",  # how often something happens is seen on a page of the admin
}


def patterns(resolver: URLResolver | None = None, prefix: str = "") -> Iterator[str]:
    for entry in (resolver or get_resolver()).url_patterns:
        if isinstance(entry, URLPattern):
            if not entry.callback.__module__.startswith(
                "webapp.mlflow"
            ):  # tests/webapp/mlflow/test_access.py
                yield prefix + str(entry.pattern)
        elif str(entry.pattern) != "admin/":
            yield from patterns(entry, prefix + str(entry.pattern))


@pytest.fixture(scope="module")
def stage(django_db_setup: None, django_db_blocker: Any) -> Iterator[tuple[Cast, World]]:
    """Built once: every request of these tests is taken back."""
    with django_db_blocker.unblock(), of_the_test():
        make_teams()
        cast = make_cast()
        yield cast, build(cast)
        transaction.set_rollback(True)


@pytest.fixture
def cast(stage: tuple[Cast, World]) -> Cast:
    return stage[0]


@pytest.fixture
def world(stage: tuple[Cast, World]) -> World:
    return stage[1]


@pytest.fixture(scope="module")
def people(stage: tuple[Cast, World], django_db_blocker: Any) -> dict[str, Client]:
    with django_db_blocker.unblock():
        members = {name: signed_in(getattr(stage[0], name)) for name in PEOPLE if name != "anonymous"}
    return {"anonymous": Client(), **members}


@pytest.fixture(scope="module")
def programs(stage: tuple[Cast, World], django_db_blocker: Any) -> dict[str, APIClient]:
    teams = {"outsider": "nlp"}
    with django_db_blocker.unblock():
        return {name: with_token(getattr(stage[0], name), teams.get(name, "vision")) for name in PEOPLE[1:]}


def ask(client: Client, row: Row, world: World) -> HttpResponseBase:
    """Asks, and takes back whatever it changed: also in the browser, which may have been signed out."""
    cookies = deepcopy(client.cookies)
    kwargs: dict[str, Any] = {}
    if row.method == "put" and not row.body:
        kwargs = {"data": b"print()", "content_type": "application/octet-stream"}
    elif row.body or row.method == "post":
        kwargs = {"data": row.data(world)}
        if row.api:
            kwargs["content_type"] = "application/json"
    with of_the_test():
        response: HttpResponseBase = getattr(client, row.method)(row.url(world), **kwargs)
        transaction.set_rollback(True)
    client.cookies = cookies
    return response


def letter(response: HttpResponseBase) -> str:
    if response.status_code == 302 and response["Location"].startswith("/login/"):
        return "L"
    if response.status_code < 400:
        return "Y"
    return next(
        (sign for sign, code in LETTERS.items() if code == response.status_code), str(response.status_code)
    )


def told(answers: dict[str, HttpResponseBase]) -> str:
    return " ".join(letter(answers[name]) for name in answers)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.method} /{row.address or row.pattern}")
def test_each_person_gets_what_the_table_says(row: Row, world: World, people: dict[str, Client]) -> None:
    answers = {name: ask(client, row, world) for name, client in people.items()}
    assert told(answers) == row.expected


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.api], ids=lambda row: f"{row.method} /{row.address or row.pattern}"
)
def test_a_token_gets_what_its_person_gets_in_its_team(
    row: Row, world: World, programs: dict[str, APIClient]
) -> None:
    answers = {name: ask(client, row, world) for name, client in programs.items()}
    assert told(answers) == BY_TOKEN.get(row.expected.replace("A", "L", 1), row.expected[2:])


def test_to_an_outsider_what_is_hidden_and_what_is_not_there_look_alike(
    world: World, people: dict[str, Client]
) -> None:
    there = {"job": world.job, "deployment": world.deployment, "model_version": world.model_version,
             "model": f"/{world.model}", "dataset": f"/{world.dataset}", "experiment": f"experiment {world.experiment}",
             "department": f"department {world.department}", "run": world.run, "report": world.report}  # fmt: skip
    names = {
        "job": "job-unknown",
        "deployment": "dep-unknown",
        "model_version": "mv-unknown",
        "model": "none",
        "dataset": "nothing",
        "department": "none",
        "run": "0" * 32,
        "report": "rep-unknown",
    }
    invented = replace(world, **names, experiment=10**9)
    not_there = names | {
        "model": "/none",
        "dataset": "/nothing",
        "experiment": f"experiment {10**9}",
        "department": "department none",
    }
    rows = [row for row in ROWS if row.expected.split()[1] == "N" and row.method in ("get", "delete")]
    for row in rows:
        pages = [
            (ask(people["outsider"], row, world), there),
            (ask(people["outsider"], row, invented), not_there),
        ]
        assert [page.status_code for page, _ in pages] == [404, 404]
        real, nothing = (_nameless(page, names) for page, names in pages)
        assert real == nothing, row.address


def _nameless(response: Any, names: dict[str, str]) -> str:
    """Without the names, and without the token of the form that signs out, which is new on each page."""
    text = re.sub(r'name="csrfmiddlewaretoken" value="\w+"', "", response.content.decode())
    for kind, name in names.items():
        text = text.replace(name, kind)
    return text


def test_every_url_stands_in_the_table() -> None:
    assert set(patterns()) == {row.pattern for row in ROWS}


def test_a_method_without_a_row_is_not_allowed(world: World, people: dict[str, Client]) -> None:
    known = {(row.method, row.pattern) for row in ROWS}
    for row in {row.pattern: row for row in ROWS}.values():
        for method in METHODS:
            if (method, row.pattern) in known:
                continue
            status = getattr(people["admin"], method)(row.url(world)).status_code
            assert status == 405, f"{method} /{row.pattern} answers {status} and has no row in the table"


@pytest.mark.parametrize("subject", LIVE)
def test_the_live_socket_lets_in_whom_the_page_lets_in(subject: str, world: World, cast: Cast) -> None:
    name = subject.format(**vars(world))
    may = ["N", *("Y" if subjects.may_watch(getattr(cast, who), name) else "N" for who in PEOPLE[1:])]
    assert " ".join(may) == LIVE[subject]  # strangers are turned away before they can join anything


def test_every_live_subject_stands_in_the_table() -> None:
    assert set(subjects._WATCHERS) == {subject.partition(":")[0] for subject in LIVE}
