"""Endpoints from Python: serve a version of a model, change it with a canary, scale and stop it.

with Client(url, token) as client:
    endpoint = Endpoints(client).create({"name": "mlp", "team": "vision", "model": "mlp", "gpu_type": "cpu"})
    endpoint.address
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from trainmaster.answers import Answer
from trainmaster.client import Client


@dataclass(frozen=True, slots=True)
class Replica(Answer):
    id: str
    version: int
    state: str
    job: str = ""
    since_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Endpoint(Answer):
    id: str
    team: str
    name: str
    state: str
    user: str = ""
    model: str = ""
    version: int = 0
    canary: int | None = None  # the version under watch
    shadow: bool = False  # it only gets copies of requests
    verdict: str = ""  # what was last said of a canary
    reason: str = ""  # why it is not as wanted
    wanted: int = 0
    scaling_reason: str = ""
    address: str = ""
    replicas: Sequence[Mapping[str, Any]] = ()  # each as a Replica
    created_ms: int | None = None
    spec: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ready(self) -> int:
        return sum(one["state"] == "ready" for one in self.replicas)


class Endpoints:
    """The endpoints of a platform; the methods raise what those of `Client` raise."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def list(self) -> list[Endpoint]:
        """Those of your teams that are not stopped."""
        return [Endpoint.of(line) for line in self._client.call("GET", "endpoints")["results"]]

    def create(self, spec: Mapping[str, Any]) -> Endpoint:
        return Endpoint.of(self._client.call("POST", "endpoints", json=dict(spec)))

    def show(self, team: str, name: str) -> Endpoint:
        return Endpoint.of(self._client.call("GET", _path(team, name)))

    def scale(self, team: str, name: str, minimum: int, maximum: int) -> Endpoint:
        limits = {"min_replicas": minimum, "max_replicas": maximum}
        return Endpoint.of(self._client.call("PATCH", _path(team, name), json=limits))

    def change(self, team: str, name: str, version: int, **policy: Any) -> Endpoint:
        """Starts a canary, or with `shadow` a shadow.

        `policy`: share_percent, watch_seconds, min_requests and what else the REST call takes.
        """
        body = {"version": version, **policy}
        return Endpoint.of(self._client.call("PUT", f"{_path(team, name)}/version", json=body))

    def canary(self, team: str, name: str) -> Any:
        """What is known of the version under trial, beside the version in use: as the REST call answers it."""
        return self._client.call("GET", f"{_path(team, name)}/canary")

    def collection(self, team: str, name: str) -> Any:
        """What is kept of its requests as data: dataset, requests, size, fresh, version."""
        return self._client.call("GET", f"{_path(team, name)}/collection")

    def collect(self, team: str, name: str) -> Any:
        """Makes a version of the dataset of its requests now; the answer is that of `collection`."""
        return self._client.call("POST", f"{_path(team, name)}/collection")

    def promote(self, team: str, name: str) -> Endpoint:
        return Endpoint.of(self._client.call("POST", f"{_path(team, name)}/promote"))

    def roll_back(self, team: str, name: str) -> Endpoint:
        return Endpoint.of(self._client.call("POST", f"{_path(team, name)}/rollback"))

    def label(self, team: str, name: str, labels: Mapping[str, Any]) -> Any:
        """What sampled requests should have been answered, by the X-Request-Id of their answers.

        Returns how many were `joined`, and the ids that are `unknown` or whose answer has `other_shape`.
        """
        return self._client.call("POST", f"{_path(team, name)}/labels", json={"labels": dict(labels)})

    def stop(self, team: str, name: str) -> Endpoint:
        return Endpoint.of(self._client.call("DELETE", _path(team, name)))


def _path(team: str, name: str) -> str:
    return f"endpoints/{quote(team, safe='')}/{quote(name, safe='')}"
