"""The REST API of the platform from Python. The CLI is made of it; notebooks may use it too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx

from trainmaster.answers import (
    Deployment,
    DryRun,
    Job,
    LogLine,
    LogPage,
    Me,
    ModelVersion,
    Node,
    Plan,
    Snapshot,
    UnexpectedAnswer,
)

__all__ = ["ApiError", "Client", "ClientError", "UnexpectedAnswer", "Unreachable"]

TIMEOUT = httpx.Timeout(30.0, connect=10.0)
UPLOAD_TIMEOUT = httpx.Timeout(600.0, connect=10.0)


class ClientError(Exception):
    """The message is a sentence for a person."""


class Unreachable(ClientError):
    """No answer at all."""


class ApiError(ClientError):
    """The platform refused: RFC 9457 problem documents, with `problems` as (field, sentence) where it names fields."""

    def __init__(
        self, status: int, code: str, sentence: str, problems: Sequence[tuple[str, str]] = ()
    ) -> None:
        super().__init__(sentence)
        self.status, self.code, self.problems = status, code, tuple(problems)


class Client:
    """Methods raise ClientError, or UnexpectedAnswer when what answers is not the platform. Safe in threads."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url.rstrip("/")
        # Never follows a redirect: the token would go along to wherever it leads.
        self._http = httpx.Client(
            base_url=f"{self.url}/api/v1/",
            headers={"Authorization": f"Bearer {token}", "Accept": "application/json"},
            timeout=TIMEOUT,
            transport=httpx.HTTPTransport(retries=2),
        )

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def me(self) -> Me:
        return Me.of(self._call("GET", "me"))

    # Jobs

    def submit(
        self, spec: Mapping[str, Any], *, idempotency_key: str, lineage: Mapping[str, str] | None = None
    ) -> Job:
        """`spec` has the fields of a job file, its `code` a manifest id. The same key again gives the same job."""
        body = {**spec, "lineage": dict(lineage)} if lineage else dict(spec)
        return Job.of(
            self._call("POST", "training-jobs", json=body, headers={"Idempotency-Key": idempotency_key})
        )

    def dry_run(self, spec: Mapping[str, Any]) -> DryRun:
        """What the job would meet if it were submitted now."""
        return DryRun.of(self._call("POST", "training-jobs/dry-run", json=dict(spec)))

    def job(self, job_id: str) -> Job:
        return Job.of(self._call("GET", f"training-jobs/{_part(job_id)}"))

    def jobs(self, *, limit: int = 50, **filters: str) -> Iterator[Job]:
        """Newest first, page by page. Filters: state, team, user, search."""
        wanted: dict[str, str] = {name: value for name, value in filters.items() if value}
        cursor = ""
        while limit > 0:
            page = {"limit": str(min(limit, 100)), **({"cursor": cursor} if cursor else {})}
            body = self._call("GET", "training-jobs", params=wanted | page)
            found = _results(body)[:limit]
            yield from map(Job.of, found)
            limit -= len(found)
            cursor = str(body.get("next") or "") if isinstance(body, dict) else ""
            if not cursor or not found:
                return

    def cancel(self, job_id: str) -> Job:
        return Job.of(self._call("POST", f"training-jobs/{_part(job_id)}/cancel"))

    def logs(self, job_id: str, *, after: int = 0, rank: int | None = None, search: str = "") -> LogPage:
        params = {"after": str(after)}
        params |= {"rank": str(rank)} if rank is not None else {}
        params |= {"search": search} if search else {}
        body = self._call("GET", f"training-jobs/{_part(job_id)}/logs", params=params)
        if not isinstance(body, dict):
            raise UnexpectedAnswer("The server's answer has no lines; is it Trainmaster, and as new as this?")
        lines = tuple(LogLine.of(line) for line in body.get("lines") or ())
        return LogPage(lines, int(body.get("next") or after), bool(body.get("ended")))

    def events(self, job_id: str) -> list[dict[str, Any]]:
        """All that happened to the job, oldest first."""
        return _results(self._call("GET", f"training-jobs/{_part(job_id)}/events"))

    def checkpoints(self, job_id: str) -> list[dict[str, Any]]:
        return _results(self._call("GET", f"training-jobs/{_part(job_id)}/checkpoints"))

    def metrics(self, job_id: str, *, key: str = "", after_step: int | None = None) -> dict[str, Any]:
        """`series` by metric as [[step, value, at_ms], …], `summary`, `parameters`."""
        params = {"key": key} if key else {}
        params |= {"after_step": str(after_step)} if after_step is not None else {}
        body = self._call("GET", f"training-jobs/{_part(job_id)}/metrics", params=params)
        return dict(body) if isinstance(body, dict) else {}

    # Bytes

    def upload(self, kind: str, team: str, name: str, files: Iterable[tuple[str, Path]]) -> str:
        """Send files, each under its path within the bundle; the id of the manifest they make.

        `kind`: code, dataset or model.
        """
        begun = self._call("POST", "uploads", json={"kind": kind, "team": team, "name": name})
        upload_id = Snapshot.of(begun).id
        count = 0
        for path, source in files:
            self._send(f"uploads/{_part(upload_id)}/files/{quote(path)}", source)
            count += 1
        made = self._call("POST", f"uploads/{_part(upload_id)}/complete", json={"files": count})
        if not isinstance(made, dict) or not made.get("manifest"):
            raise UnexpectedAnswer("The server completed the upload without naming its manifest.")
        return str(made["manifest"])

    def add_snapshot(self, name: str, *, team: str, manifest: str, purpose: str) -> Snapshot:
        body = {"team": team, "manifest": manifest, "purpose": purpose}
        return Snapshot.of(self._call("POST", f"datasets/{_part(name)}/snapshots", json=body))

    # Models and deployments

    def models(self) -> list[ModelVersion]:
        return [ModelVersion.of(body) for body in _results(self._call("GET", "models"))]

    def register_version(
        self, name: str, *, team: str, checkpoint: str = "", source_url: str = "", manifest: str = ""
    ) -> ModelVersion:
        """From exactly one of the three."""
        given = {"checkpoint": checkpoint, "source_url": source_url, "manifest": manifest}
        body = {"team": team} | {field: value for field, value in given.items() if value}
        return ModelVersion.of(self._call("POST", f"models/{_part(name)}/versions", json=body))

    def deploy(
        self, model: str, version: int, *, nodes: Sequence[str] = (), source_url: str = "", strategy: str = "",
        preheat: bool = False, pin: bool = False, rollout: Mapping[str, Any] | None = None, priority: int = 0,
        rate_cap: int = 0,
    ) -> Deployment:  # fmt: skip
        """`model` is team/name; no nodes means every ready one. `preheat`: fetched and verified, never activated.
        `rollout`: how the nodes switch to it, as REST takes it; {} switches each one as soon as it holds the version.
        """
        body: dict[str, Any] = {"model_id": model, "version": version, "target_workers": list(nodes)}
        more = {
            "source_url": source_url,
            "strategy": strategy,
            "preheat": preheat,
            "pin": pin,
            "priority": priority,
        }
        more["rate_cap"] = rate_cap
        body |= {name: value for name, value in more.items() if value}
        body |= {} if rollout is None else {"rollout": dict(rollout)}
        return Deployment.of(self._call("POST", "deployments", json=body))

    def promote(self, deployment_id: str) -> Deployment:
        """The canaries are checked once more, then the other nodes follow."""
        return Deployment.of(self._call("POST", f"deployments/{_part(deployment_id)}/promote"))

    def roll_back(self, deployment_id: str) -> Deployment:
        """Every node goes back to what it ran before."""
        return Deployment.of(self._call("POST", f"deployments/{_part(deployment_id)}/rollback"))

    def retry_deployment(self, deployment_id: str) -> Deployment:
        """Failed nodes fetch again; failed hooks and health checks run again."""
        return Deployment.of(self._call("POST", f"deployments/{_part(deployment_id)}/retry"))

    def plan(
        self,
        model: str,
        version: int,
        *,
        nodes: Sequence[str] = (),
        strategy: str = "auto",
        rate_cap: int = 0,
    ) -> Plan:
        """What each strategy would take; nothing moves."""
        body = {"model_id": model, "version": version, "target_workers": list(nodes), "strategy": strategy}
        body |= {"rate_cap": rate_cap} if rate_cap else {}
        return Plan.of(self._call("POST", "deployments/plan", json=body))

    def pin_deployment(self, deployment_id: str, pinned: bool) -> Deployment:
        """Whether its nodes must keep it when they need room."""
        return Deployment.of(self._call("PATCH", f"deployments/{_part(deployment_id)}", json={"pin": pinned}))

    def deployment(self, deployment_id: str) -> Deployment:
        return Deployment.of(self._call("GET", f"deployments/{_part(deployment_id)}"))

    def deployments(self, model: str = "") -> list[Deployment]:
        """The newest hundred; of one model, team/name, where it is named."""
        wanted = {"model_id": model} if model else {}
        return [Deployment.of(body) for body in _results(self._call("GET", "deployments", params=wanted))]

    def cancel_deployment(self, deployment_id: str) -> Deployment:
        return Deployment.of(self._call("DELETE", f"deployments/{_part(deployment_id)}"))

    def nodes(self) -> list[Node]:
        return [Node.of(body) for body in _results(self._call("GET", "nodes"))]

    def _send(self, path: str, source: Path) -> None:
        try:
            with source.open("rb") as file:
                self._call(
                    "PUT",
                    path,
                    content=file,
                    headers={"Content-Type": "application/octet-stream"},
                    timeout=UPLOAD_TIMEOUT,
                )
        except OSError as error:
            raise ClientError(f"{source} cannot be read: {error.strerror or error}.") from error

    def _call(self, method: str, path: str, **options: Any) -> Any:
        try:
            response = self._http.request(method, path, **options)
        except httpx.TimeoutException as error:
            raise Unreachable(f"{self.url} did not answer in time; try again.") from error
        except httpx.HTTPError as error:
            raise Unreachable(f"{self.url} cannot be reached: {error or type(error).__name__}.") from error
        except httpx.InvalidURL as error:
            raise Unreachable(f"{self.url} is not an address of a platform: {error}.") from error
        if not response.is_success:
            raise _refusal(response)
        if response.status_code == httpx.codes.NO_CONTENT:
            return None
        try:
            return response.json()
        except ValueError as error:
            told = f"{response.url} answered with {response.headers.get('content-type', 'nothing')}, not JSON"
            raise UnexpectedAnswer(f"{told}; is it the address of Trainmaster?") from error


def _refusal(response: httpx.Response) -> ClientError:
    try:
        body = response.json()
    except ValueError:
        body = None
    if not isinstance(body, dict) or "detail" not in body:
        hint = f" and points to {response.headers['location']}" if response.has_redirect_location else ""
        return ApiError(response.status_code, "", f"{response.url} answered {response.status_code}{hint}.")
    named = body.get("problems") or ()
    problems = [
        (str(one.get("field", "")), str(one.get("sentence", ""))) for one in named if isinstance(one, dict)
    ]
    return ApiError(response.status_code, str(body.get("code", "")), str(body["detail"]), problems)


def _results(body: Any) -> list[Any]:
    """Of `{"results": […]}` or of a plain list."""
    found = body.get("results") if isinstance(body, dict) else body
    if not isinstance(found, list):
        raise UnexpectedAnswer("The server's answer has no results; is it Trainmaster, and as new as this?")
    return found


def _part(text: str) -> str:
    """One segment of a path, whatever is typed."""
    return quote(text, safe="")
