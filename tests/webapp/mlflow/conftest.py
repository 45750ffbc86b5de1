"""A token of alice for the team vision, and requests as an MLflow client sends them."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from tests.webapp.conftest import Cast
from webapp.accounts import tokens
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of


def token_of(user: User, team: str = "vision") -> str:
    return tokens.create_token(actor_of(user), team, "mlflow", 1).text


class Mlflow:
    """Sends JSON to the MLflow API with a token."""

    def __init__(self, token: str, **headers: str) -> None:
        self.client = Client()
        self.headers = {"Authorization": f"Bearer {token}", **headers} if token else headers

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        address = path if path.startswith("/") else f"/api/2.0/mlflow/{path}"
        if method == "GET":
            return self.client.get(address, body or {}, headers=self.headers)
        data = body if isinstance(body, bytes | str) else json.dumps(body or {})
        kind = "application/octet-stream" if isinstance(body, bytes) else "application/json"
        return self.client.generic(method, address, data, content_type=kind, headers=self.headers)

    def done(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        response = self.ask(method, path, body)
        assert response.status_code == 200, response.content
        answer: dict[str, Any] = response.json()
        return answer

    def refused(self, method: str, path: str, body: Any = None) -> tuple[int, str, str]:
        response = self.ask(method, path, body)
        answer = response.json()
        return response.status_code, answer["error_code"], answer["message"]


@pytest.fixture
def alice(cast: Cast) -> Mlflow:
    return Mlflow(token_of(cast.owner))


@pytest.fixture
def experiment(alice: Mlflow) -> str:
    return str(alice.done("POST", "experiments/create", {"name": "wine"})["experiment_id"])


@pytest.fixture
def new_run(alice: Mlflow, experiment: str) -> Callable[..., str]:
    def create(**body: Any) -> str:
        run = alice.done("POST", "runs/create", {"experiment_id": experiment, "start_time": 1, **body})
        return str(run["run"]["info"]["run_id"])

    return create


@pytest.fixture
def run_id(new_run: Callable[..., str]) -> str:
    return new_run()
