"""An MLflow tracking server over its REST API, as far as an import asks."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx

from trainmaster.importers.runs import SourceError

TIMEOUT = httpx.Timeout(60.0, connect=10.0)
_PROXY = "/api/2.0/mlflow-artifacts/artifacts"
_PAGE, _HISTORY_PAGE = 1_000, 25_000


class MlflowServer:
    """Methods raise SourceError."""

    def __init__(self, url: str, token: str = "") -> None:
        self.url = url.rstrip("/")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            self._http = httpx.Client(base_url=self.url, headers=headers, timeout=TIMEOUT)
        except httpx.InvalidURL as error:
            raise SourceError(f"{self.url} is not the address of an MLflow server: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def experiments(self) -> Iterator[Mapping[str, Any]]:
        return self._pages("POST", "experiments/search", "experiments", {"max_results": _PAGE})

    def runs(self, experiment_id: str) -> Iterator[Mapping[str, Any]]:
        search = {
            "experiment_ids": [experiment_id],
            "max_results": _PAGE,
            "order_by": ["attributes.start_time ASC"],
        }
        return self._pages("POST", "runs/search", "runs", search)

    def history(self, run_id: str, key: str) -> Iterator[Mapping[str, Any]]:
        search = {"run_id": run_id, "metric_key": key, "max_results": _HISTORY_PAGE}
        return self._pages("GET", "metrics/get-history", "metrics", search)

    def models(self) -> Iterator[Mapping[str, Any]]:
        return self._pages("GET", "registered-models/search", "registered_models", {"max_results": 100})

    def model(self, name: str) -> Mapping[str, Any]:
        """With its aliases, which a search leaves out on some servers."""
        answer = self._ask("GET", "registered-models/get", {"name": name})
        return answer.get("registered_model") or {}

    def versions(self, name: str) -> list[Mapping[str, Any]]:
        """Oldest first."""
        quoted = name.replace("'", "''")
        search = {"filter": f"name='{quoted}'", "max_results": 200}
        found = self._pages("GET", "model-versions/search", "model_versions", search)
        return sorted(found, key=lambda version: int(version["version"]))

    def files(self, run_id: str, folder: str = "") -> Iterator[str]:
        """Paths of all artifacts of a run."""
        search = {"run_id": run_id, **({"path": folder} if folder else {})}
        for file in self._pages("GET", "artifacts/list", "files", search):
            if file.get("is_dir"):
                yield from self.files(run_id, str(file["path"]))
            else:
                yield str(file["path"])

    @contextmanager
    def opened(self, run_id: str, path: str) -> Iterator[Path]:
        """A copy of one artifact, for as long as the context is open."""
        what = f"the artifact {path} of run {run_id}"
        with self._copy("/get-artifact", {"run_id": run_id, "path": path}, what) as copy:
            yield copy

    def place_of(self, name: str, number: str) -> str:
        """Where the files of a version of a registered model lie."""
        answer = self._ask("GET", "model-versions/get-download-uri", {"name": name, "version": number})
        return str(answer.get("artifact_uri") or "")

    def proxied(self, root: str, folder: str = "") -> Iterator[str]:
        """Paths below `root` of all files that the server keeps there itself."""
        place = f"{root}/{folder}".rstrip("/")
        for file in self._ask("GET", _PROXY, {"path": place}).get("files") or ():
            path = f"{folder}/{file['path']}".lstrip("/")
            if file.get("is_dir"):
                yield from self.proxied(root, path)
            else:
                yield path

    @contextmanager
    def proxied_file(self, path: str) -> Iterator[Path]:
        """A copy, for as long as the context is open."""
        with self._copy(f"{_PROXY}/{quote(path)}", {}, f"the artifact {path}") as copy:
            yield copy

    @contextmanager
    def _copy(self, address: str, query: Mapping[str, str], what: str) -> Iterator[Path]:
        with tempfile.NamedTemporaryFile(prefix="trainmaster-import-") as copy:
            try:
                with self._http.stream("GET", address, params=query) as answer:
                    if answer.status_code != 200:
                        answer.read()
                        raise SourceError(f"{self.url} answered {answer.status_code} for {what}")
                    for part in answer.iter_bytes(1 << 20):
                        copy.write(part)
            except httpx.HTTPError as error:
                raise SourceError(f"{self.url} did not give {what}: {error}") from error
            copy.flush()
            yield Path(copy.name)

    def _pages(
        self, method: str, path: str, field: str, search: dict[str, Any]
    ) -> Iterator[Mapping[str, Any]]:
        token = ""
        while True:
            answer = self._ask(method, path, search | ({"page_token": token} if token else {}))
            yield from answer.get(field) or ()
            token = str(answer.get("next_page_token") or "")
            if not token:
                return

    def _ask(self, method: str, path: str, search: Mapping[str, Any]) -> Mapping[str, Any]:
        fields: dict[str, Any] = {"json": search} if method == "POST" else {"params": search}
        try:
            address = path if path.startswith("/") else f"/api/2.0/mlflow/{path}"
            answer = self._http.request(method, address, **fields)
        except httpx.HTTPError as error:
            raise SourceError(f"{self.url} does not answer: {error}") from error
        try:
            body = answer.json()
        except ValueError:
            body = None
        if not isinstance(body, dict) or answer.status_code != 200:
            said = body.get("message") if isinstance(body, dict) else ""
            raise SourceError(
                f"{self.url} answered {answer.status_code} to {path}{f': {said}' if said else ''};"
                " is it an MLflow server, and may you read from it?"
            )
        return body
