"""What a client learns of the server, which team it works for, and what bad requests get: never a 5xx."""

import re
from typing import Any

import pytest

from tests.webapp.conftest import Cast
from tests.webapp.mlflow.conftest import Mlflow, token_of
from webapp.mlflow import routes
from webapp.mlflow.endpoint import Endpoint


def test_a_workspace_chooses_among_the_teams_of_the_token(cast: Cast, alice: Mlflow, experiment: str) -> None:
    token = token_of(cast.owner)
    assert Mlflow(token, **{"X-MLFLOW-WORKSPACE": "vision"}).ask(
        "GET", "experiments/get", {"experiment_id": experiment}
    )
    status, code, _ = Mlflow(token, **{"X-MLFLOW-WORKSPACE": "nlp"}).refused(
        "POST", "experiments/create", {"name": "x"}
    )
    assert (status, code) == (404, "RESOURCE_DOES_NOT_EXIST")


@pytest.mark.parametrize("address", ["/health", "/version", "/api/3.0/mlflow/server-info"])
def test_a_client_learns_of_the_server_without_a_token(address: str, db: None) -> None:
    assert Mlflow("").ask("GET", address).status_code == 200


def test_an_endpoint_that_is_not_served_says_so(alice: Mlflow) -> None:
    status, code, sentence = alice.refused("POST", "/api/3.0/mlflow/traces/search", {})
    assert (status, code) == (404, "ENDPOINT_NOT_FOUND")
    assert "docs/reference/mlflow.md" in sentence


VALUES = [
    None,
    "",
    "x" * 9_000,
    -1,
    1 << 70,
    1.5,
    True,
    [],
    {},
    "a\0b",
    "\ud800",
    "../..",
    [None],
    {"a": [1]},
    "0",
]
BODIES = ["", "null", "[]", "{", '"text"', "1", "[" * 2_000, '{"a":' * 2_000]


def endpoints() -> list[tuple[str, Endpoint]]:
    known = {
        "/api/2.0/mlflow/": routes.TRACKING,
        "/api/2.0/mlflow-artifacts/": routes.PROXY,
        "/": routes.PLAIN,
    }
    return [(prefix, endpoint) for prefix, found in known.items() for endpoint in found]


def address_of(prefix: str, endpoint: Endpoint) -> str:
    return prefix + re.sub(r"<\w+:\w+>", "none", endpoint.path)


@pytest.mark.parametrize(("prefix", "endpoint"), endpoints(), ids=lambda value: getattr(value, "path", ""))
def test_bad_requests_are_refused_and_never_break_the_server(
    prefix: str, endpoint: Endpoint, alice: Mlflow
) -> None:
    address = address_of(prefix, endpoint)
    names = [field.name for field in endpoint.fields] or [
        "run_id",
        "metrics",
        "params",
        "tags",
        "value",
        "key",
    ]
    if endpoint.method == "GET":
        bodies: list[Any] = [{name: value} for name in names for value in ("", "x", "-1", "\0", "9" * 40)]
    else:
        bodies = [*BODIES, *({name: value} for name in names for value in VALUES)]
        bodies += [dict.fromkeys(names, value) for value in VALUES]
    for body in bodies:
        response = alice.ask(endpoint.method, address, body)
        assert response.status_code < 500, (body, response.content)


@pytest.mark.parametrize(
    "path", ["..", "../x", "0/%2e%2e/artifacts", "%252e%252e/x", "/etc/passwd", "a\\b", "x/y/z"]
)
def test_paths_that_leave_their_folder_lead_nowhere(alice: Mlflow, path: str) -> None:
    status, _, _ = alice.refused("GET", "/api/2.0/mlflow-artifacts/artifacts", {"path": path})
    assert status in (400, 404)
