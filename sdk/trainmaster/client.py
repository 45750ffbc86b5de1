"""The REST API of the platform from Python, for the CLI and for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trainmaster import bundle, uploads
from trainmaster.answers import (
    Comparison,
    Deployment,
    DryRun,
    Experiment,
    Job,
    LogLine,
    LogPage,
    Me,
    ModelVersion,
    Node,
    ParallelismAdvice,
    Plan,
    QueueEntry,
    Quota,
    Reproduction,
    Snapshot,
    Team,
    UnexpectedAnswer,
)
from trainmaster.connection import ApiError, ClientError, Connection, Sent, Unreachable, results, segment
from trainmaster.uploads import Earlier, Uploaded

__all__ = ["ApiError", "Client", "ClientError", "UnexpectedAnswer", "Unreachable"]


class Client(Connection):
    """The resources of the platform as methods, which raise what those of Connection do."""

    def me(self) -> Me:
        return Me.of(self.call("GET", "me"))

    def teams(self) -> list[Team]:
        """Your teams; for platform admins all teams."""
        return [Team.of(body) for body in results(self.call("GET", "teams"))]

    def only_team(self, team: str = "") -> str:
        """This team; if it is empty, the only one it can be. Raises ClientError."""
        if team:
            return team
        me = self.me()
        if me.token_team:
            return me.token_team
        if len(me.teams) == 1:
            return next(iter(me.teams))
        teams = ", ".join(sorted(me.teams)) or "none"
        raise ClientError(
            f"Which team? You are in {teams}. Name it with --team, in the job file as `team`, or with init(team=…)."
        )

    def quotas(self, team: str) -> list[Quota]:
        """One for each GPU type."""
        return [Quota.of(body) for body in results(self.call("GET", f"teams/{segment(team)}/quotas"))]

    # Jobs

    def submit(
        self, spec: Mapping[str, Any], *, idempotency_key: str, lineage: Mapping[str, str] | None = None
    ) -> Job:
        """`spec` has the fields of a job file, its `code` a manifest id. The same key again gives the same job."""
        body = {**spec, "lineage": dict(lineage)} if lineage else dict(spec)
        return Job.of(
            self.call("POST", "training-jobs", json=body, headers={"Idempotency-Key": idempotency_key})
        )

    def plan_parallelism(self, question: Mapping[str, Any], *, scaling: bool = False) -> ParallelismAdvice:
        """Ranked layouts of a training; `question` as docs/how-to/plan-parallelism.md describes it."""
        params = {"scaling": "1"} if scaling else {}
        while True:
            answer = self.call("POST", "parallelism/plans", json=dict(question), params=params)
            if not answer.get("scaling_left"):  # each answer has more points of the curve than the one before
                return ParallelismAdvice.of(answer)

    def dry_run(self, spec: Mapping[str, Any]) -> DryRun:
        """When the job would start if it were submitted now, and why not at once."""
        return DryRun.of(self.call("POST", "training-jobs/dry-run", json=dict(spec)))

    def job(self, job_id: str) -> Job:
        return Job.of(self.call("GET", f"training-jobs/{segment(job_id)}"))

    def find_job(self, reference: str) -> Job:
        """By id, NAME, TEAM/NAME or the beginning of an id; without `lineage`. Of several with the name the newest."""
        return Job.of(self.call("GET", "training-jobs/resolve", params={"job": reference}))

    def queue(self, limit: int = 100) -> list[QueueEntry]:
        """The waiting jobs of all teams, next to start first."""
        return [
            QueueEntry.of(body) for body in results(self.call("GET", "queue", params={"limit": str(limit)}))
        ]

    def jobs(self, *, limit: int = 50, **filters: str) -> Iterator[Job]:
        """Newest first, page by page. Filters: state, team, user, search."""
        given = {name: value for name, value in filters.items() if value}
        cursor = ""
        while limit > 0:
            page = {"limit": str(min(limit, 100)), **({"cursor": cursor} if cursor else {})}
            body = self.call("GET", "training-jobs", params=given | page)
            bodies = results(body)[:limit]
            yield from map(Job.of, bodies)
            limit -= len(bodies)
            cursor = str(body.get("next") or "") if isinstance(body, dict) else ""
            if not cursor or not bodies:
                return

    def run_again(self, job_id: str, *, idempotency_key: str | None = None) -> Job:
        """The new job, with the code, data, image, settings and seed of this one."""
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
        return Job.of(self.call("POST", f"training-jobs/{segment(job_id)}/again", headers=headers))

    def reproduction(self, job_id: str) -> Reproduction:
        """Of a job that repeats another one: what differs, and whether the metrics agree."""
        return Reproduction.of(self.call("GET", f"training-jobs/{segment(job_id)}/reproduction"))

    def cancel(self, job_id: str) -> Job:
        return Job.of(self.call("POST", f"training-jobs/{segment(job_id)}/cancel"))

    def logs(self, job_id: str, *, after: int = 0, rank: int | None = None, search: str = "") -> LogPage:
        params = {"after": str(after)}
        params |= {"rank": str(rank)} if rank is not None else {}
        params |= {"search": search} if search else {}
        body = self.call("GET", f"training-jobs/{segment(job_id)}/logs", params=params)
        if not isinstance(body, dict):
            raise UnexpectedAnswer("The server's answer has no lines; is it Trainmaster, and as new as this?")
        lines = tuple(LogLine.of(line) for line in body.get("lines") or ())
        return LogPage(lines, int(body.get("next") or after), bool(body.get("ended")))

    def events(self, job_id: str) -> list[dict[str, Any]]:
        """All events of the job, oldest first."""
        return results(self.call("GET", f"training-jobs/{segment(job_id)}/events"))

    def checkpoints(self, job_id: str) -> list[dict[str, Any]]:
        return results(self.call("GET", f"training-jobs/{segment(job_id)}/checkpoints"))

    def metrics(self, job_id: str, *, key: str = "", after_step: int | None = None) -> dict[str, Any]:
        """`series` by metric as [[step, value, at_ms], …], `summary`, `parameters`."""
        params = {"key": key} if key else {}
        params |= {"after_step": str(after_step)} if after_step is not None else {}
        body = self.call("GET", f"training-jobs/{segment(job_id)}/metrics", params=params)
        return dict(body) if isinstance(body, dict) else {}

    def experiments(self, *, team: str = "", search: str = "") -> list[Experiment]:
        """The newest 200, or those of one team or with this text in the name."""
        filters = {name: value for name, value in {"team": team, "search": search}.items() if value}
        return [Experiment.of(body) for body in results(self.call("GET", "experiments", params=filters))]

    def compare(self, job_ids: Sequence[str]) -> Comparison:
        """The settings in which up to 20 runs differ, and their metrics."""
        return Comparison.of(self.call("GET", "experiments/compare", params={"jobs": ",".join(job_ids)}))

    # Files

    def upload(
        self,
        kind: str,
        team: str,
        name: str,
        files: Iterable[tuple[str, Path]],
        sent: Sent = lambda count: None,
    ) -> str:
        """Send files, each under its path within the bundle; returns the id of their manifest.

        `kind`: code, dataset or model. `sent` is called with the number of bytes of each part that was sent.
        """
        return self.upload_again(kind, team, name, files, sent, resume=False).manifest

    def upload_again(
        self, kind: str, team: str, name: str, files: Iterable[tuple[str, Path]],
        sent: Sent = lambda count: None, *, resume: bool = True, earlier: Earlier | None = None,
    ) -> Uploaded:  # fmt: skip
        """The same, going on with one of this name that was broken off, and without the files of an `earlier` one."""
        listed = list(files)
        begun = uploads.begin(self, kind, team, name, [path for path, _ in listed], resume)
        return uploads.Uploading(self, sent, earlier or Earlier()).run(
            begun, listed, bundle.executables(listed) if kind == "code" else ()
        )

    def add_snapshot(
        self, name: str, *, team: str, purpose: str, manifest: str = "", source_url: str = "",
        projects: Sequence[str] = (), paths: Sequence[str] = (),
    ) -> Snapshot:  # fmt: skip
        body: dict[str, Any] = {"team": team, "purpose": purpose, "projects": list(projects)}
        body |= {"manifest": manifest} if manifest else {"source_url": source_url, "paths": list(paths)}
        return Snapshot.of(self.call("POST", f"datasets/{segment(name)}/snapshots", json=body))

    def datasets(self, *, team: str = "", name: str = "", search: str = "") -> list[Snapshot]:
        """Snapshots of the datasets of your teams, newest first."""
        filters = {"team": team, "name": name, "search": search}
        return [Snapshot.of(body) for body in results(self.call("GET", "datasets", params=filters))]

    # Models and deployments

    def models(self) -> list[ModelVersion]:
        return [ModelVersion.of(body) for body in results(self.call("GET", "models"))]

    def register_version(
        self, name: str, *, team: str, checkpoint: str = "", source_url: str = "", manifest: str = "",
        artifact: str = "",
    ) -> ModelVersion:  # fmt: skip
        """From exactly one of checkpoint, source_url, manifest and artifact, RUN/FOLDER."""
        given = {
            "checkpoint": checkpoint, "source_url": source_url, "manifest": manifest, "artifact": artifact,
        }  # fmt: skip
        body = {"team": team} | {field: value for field, value in given.items() if value}
        return ModelVersion.of(self.call("POST", f"models/{segment(name)}/versions", json=body))

    def deploy(
        self, model: str, version: int, *, nodes: Sequence[str] = (), source_url: str = "", strategy: str = "",
        preheat: bool = False, pin: bool = False, rollout: Mapping[str, Any] | None = None, priority: int = 0,
        rate_cap: int = 0,
    ) -> Deployment:  # fmt: skip
        """`model` is TEAM/NAME; no nodes means all ready nodes. `preheat`: fetched and verified, never activated.
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
        return Deployment.of(self.call("POST", "deployments", json=body))

    def promote(self, deployment_id: str) -> Deployment:
        """The canaries are checked once more, then the other nodes follow."""
        return Deployment.of(self.call("POST", f"deployments/{segment(deployment_id)}/promote"))

    def roll_back(self, deployment_id: str) -> Deployment:
        """Every node switches to the version it ran before."""
        return Deployment.of(self.call("POST", f"deployments/{segment(deployment_id)}/rollback"))

    def retry_deployment(self, deployment_id: str) -> Deployment:
        """Failed nodes fetch again; failed hooks and health checks run again."""
        return Deployment.of(self.call("POST", f"deployments/{segment(deployment_id)}/retry"))

    def plan(
        self, model: str, version: int, *, nodes: Sequence[str] = (), strategy: str = "auto", rate_cap: int = 0
    ) -> Plan:  # fmt: skip
        """The predicted time of each strategy; nothing is sent."""
        body = {"model_id": model, "version": version, "target_workers": list(nodes), "strategy": strategy}
        body |= {"rate_cap": rate_cap} if rate_cap else {}
        return Plan.of(self.call("POST", "deployments/plan", json=body))

    def pin_deployment(self, deployment_id: str, pinned: bool) -> Deployment:
        """Whether nodes may evict it when they need disk space."""
        return Deployment.of(
            self.call("PATCH", f"deployments/{segment(deployment_id)}", json={"pin": pinned})
        )

    def deployment(self, deployment_id: str) -> Deployment:
        return Deployment.of(self.call("GET", f"deployments/{segment(deployment_id)}"))

    def deployments(self, model: str = "") -> list[Deployment]:
        """The newest 100, or those of one model, TEAM/NAME."""
        filters = {"model_id": model} if model else {}
        return [Deployment.of(body) for body in results(self.call("GET", "deployments", params=filters))]

    def cancel_deployment(self, deployment_id: str) -> Deployment:
        return Deployment.of(self.call("DELETE", f"deployments/{segment(deployment_id)}"))

    def nodes(self) -> list[Node]:
        return [Node.of(body) for body in results(self.call("GET", "nodes"))]

    def drain_node(self, node: str, *, reason: str = "", seconds: int | None = None) -> Node:
        """It takes no new jobs; with `seconds` it is under maintenance for so long and then takes jobs again."""
        body = {"reason": reason} | ({} if seconds is None else {"seconds": seconds})
        return Node.of(self.call("POST", f"nodes/{segment(node)}/drain", json=body))

    def resume_node(self, node: str) -> Node:
        return Node.of(self.call("POST", f"nodes/{segment(node)}/resume"))
