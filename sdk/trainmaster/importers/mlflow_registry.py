"""The registry of an MLflow server: models, versions with their files, tags and aliases, sent to our own MLflow API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlparse

from trainmaster.client import ApiError, Client
from trainmaster.importers.mlflow_server import MlflowServer

ORIGIN = "imported.from"  # tag of a version: its address on that server, by which it is known again
_NO_STAGE = ("", "None")


@dataclass(frozen=True, slots=True)
class SentModel:
    name: str
    versions: int  # that are new
    left_out: tuple[str, ...]  # sentences


def send_models(
    client: Client, team: str, server: MlflowServer, runs: Mapping[str, str]
) -> Iterator[SentModel]:
    """`runs`: id on that server → id here, of those that were imported. Raises ClientError and SourceError."""
    for found in server.models():
        yield _Sender(client, team, server, runs).send(server.model(str(found["name"])) or found)


class _Sender:
    def __init__(self, client: Client, team: str, server: MlflowServer, runs: Mapping[str, str]) -> None:
        self._client, self._server, self._runs = client, server, runs
        self._headers = {"X-MLFLOW-WORKSPACE": team}
        self._left_out: list[str] = []

    def send(self, model: Mapping[str, Any]) -> SentModel:
        name = str(model["name"])
        self._ensure(name, model)
        numbers = self._known(name)  # on that server → here
        new = 0
        for version in self._server.versions(name):
            number = str(version["version"])
            if number in numbers:
                continue
            made = self._version(name, version)
            if made:
                numbers[number], new = made, new + 1
        for alias in model.get("aliases") or ():
            if here := numbers.get(str(alias["version"])):
                self._ask(
                    "POST",
                    "registered-models/alias",
                    {"name": name, "alias": str(alias["alias"]), "version": here},
                )
        return SentModel(name, new, tuple(self._left_out))

    def _ensure(self, name: str, model: Mapping[str, Any]) -> None:
        body = {"name": name, "description": str(model.get("description") or ""), "tags": _tags(model)}
        try:
            self._ask("POST", "registered-models/create", body)
        except ApiError as error:
            if error.status != 400 or not self._exists(name):
                raise

    def _exists(self, name: str) -> bool:
        try:
            self._ask("GET", "registered-models/get", {"name": name})
        except ApiError:
            return False
        return True

    def _known(self, name: str) -> dict[str, str]:
        """The versions that an earlier import has made: number on that server → number here."""
        quoted = name.replace("'", "''")
        found = self._ask(
            "GET", "model-versions/search", {"filter": f"name='{quoted}'", "max_results": 10_000}
        )
        tags = {
            str(row["version"]): {tag["key"]: tag.get("value", "") for tag in row.get("tags") or ()}
            for row in found.get("model_versions") or ()
        }
        begin = self._origin(name, "")
        return {
            held[ORIGIN].removeprefix(begin): number
            for number, held in tags.items()
            if held.get(ORIGIN, "").startswith(begin)
        }

    def _origin(self, name: str, number: str) -> str:
        parts = urlparse(self._server.url)
        host = parts.netloc.rpartition("@")[2]  # a password in the address stays out
        return f"{parts.scheme}://{host}{parts.path}/#/models/{quote(name, safe='')}/versions/{number}"

    def _version(self, name: str, version: Mapping[str, Any]) -> str:
        """The number here; "" for one that is left out."""
        number, theirs = str(version["version"]), str(version.get("run_id") or "")
        run = self._runs.get(theirs)
        if run is None:
            why = f"its run {theirs} was not imported" if theirs else "it belongs to no run"
            self._left_out.append(f"{name} version {number} is left out: {why}")
            return ""
        folder = self._copied(name, number, theirs, run)
        if folder is None:
            self._left_out.append(
                f"{name} version {number} is left out: its files lie where that server does not give them out"
            )
            return ""
        tags = [*_tags(version), {"key": ORIGIN, "value": self._origin(name, number)}]
        body = {
            "name": name, "source": f"runs:/{run}/{folder}", "run_id": run, "tags": tags,
            "description": str(version.get("description") or ""),
        }  # fmt: skip
        made = self._ask("POST", "model-versions/create", body)["model_version"]
        here = str(made["version"])
        stage = str(version.get("current_stage") or "")
        if stage not in _NO_STAGE:
            self._ask(
                "POST", "model-versions/transition-stage", {"name": name, "version": here, "stage": stage}
            )
        return here

    def _copied(self, name: str, number: str, theirs: str, run: str) -> str | None:
        """The folder of its files among those of our run. A logged model lies beside its run, and is copied."""
        uri = self._server.place_of(name, number)
        place = urlparse(uri)
        begin = f"/{theirs}/" if place.scheme == "runs" else f"/{theirs}/artifacts/"
        _, inside, folder = uri.partition(begin)
        if inside:
            return folder.strip("/")
        if place.scheme != "mlflow-artifacts":
            return None
        root = place.path.strip("/")
        into = f"registered/{quote(name, safe='')}/{number}"
        for path in self._server.proxied(root):
            with self._server.proxied_file(f"{root}/{path}") as copy:
                self._client.send_file(f"runs/{run}/files/{quote(f'{into}/{path}')}", copy)
        return into

    def _ask(self, method: str, path: str, fields: Mapping[str, Any]) -> Any:
        options: dict[str, Any] = {"params": fields} if method == "GET" else {"json": fields}
        address = f"{self._client.url}/api/2.0/mlflow/{path}"
        return self._client.call(method, address, headers=self._headers, **options)


def _tags(held: Mapping[str, Any]) -> list[dict[str, str]]:
    return [{"key": str(tag["key"]), "value": str(tag.get("value") or "")} for tag in held.get("tags") or ()]
