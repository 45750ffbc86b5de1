"""`trainmaster jobs`, `show` and `cancel`."""

from __future__ import annotations

import click
import yaml

from platform_core.units import format_duration_ms
from trainmaster.answers import Deployment, Job
from trainmaster.cli import deployments, output
from trainmaster.cli.session import connect

DEPLOYMENT = "dep-"


@click.command()
@click.option("--state", default="", help="A state, or active, waiting, finished.")
@click.option("--team", default="")
@click.option("--user", default="")
@click.option("--search", default="", help="Part of the name or project, or the beginning of the id.")
@click.option("-n", "--limit", default=20, show_default=True, type=click.IntRange(1, 10_000))
@output.as_json
def jobs(state: str, team: str, user: str, search: str, limit: int, as_json: bool) -> None:
    """List jobs, newest first."""
    with connect() as client:
        found = list(client.jobs(limit=limit, state=state, team=team, user=user, search=search))
    if as_json:
        output.dump(found)
        return
    output.table(
        ("ID", "NAME", "TEAM", "STATE", "STEP", "LOSS", "GPUS", "TYPE", "SUBMITTED"),
        [
            (
                job.id, job.name, job.team, _state(job), _step(job), job.progress.get("loss"), job.num_gpus,
                job.gpu_type, f"{output.age(job.submitted_ms)} ago",
            )
            for job in found
        ],
        empty="No jobs.",
    )  # fmt: skip


@click.command()
@click.argument("id")
@click.option("--spec", "only_spec", is_flag=True, help="Print the job file only, to submit it again.")
@output.as_json
def show(id: str, only_spec: bool, as_json: bool) -> None:
    """Show one job, or one deployment (dep-…)."""
    with connect() as client:
        found = client.deployment(id) if id.startswith(DEPLOYMENT) else client.job(id)
    if as_json:
        output.dump(found)
    elif isinstance(found, Deployment):
        deployments.tell(found)
    elif only_spec:
        click.echo(yaml.safe_dump(dict(found.spec), sort_keys=False, allow_unicode=True), nl=False)
    else:
        _tell_job(found)


@click.command()
@click.argument("id")
def cancel(id: str) -> None:
    """Cancel a job, or a deployment (dep-…)."""
    with connect() as client:
        if id.startswith(DEPLOYMENT):
            click.echo(f"{id} is {client.cancel_deployment(id).status}.")
            return
        job = client.cancel(id)
    click.echo(f"{id} is {job.state}." if job.is_finished else f"{id} is {job.state} and stops now.")


def _tell_job(job: Job) -> None:
    progress = job.progress
    output.facts(
        [
            ("job", f"{job.id}  {job.name}"),
            ("state", _state(job)),
            ("reason", job.reason),
            ("waits", _waits(job)),
            ("team", f"{job.team}, submitted by {job.user}" if job.user else job.team),
            ("slots", f"{job.num_gpus} x {job.gpu_type}"),
            ("step", _step(job)),
            ("loss", progress.get("loss")),
            ("learning rate", progress.get("learning_rate")),
            (
                "attempt",
                f"{job.attempt}, restarted {job.restarts} times" if job.restarts else job.attempt or None,
            ),
            ("checkpoint", job.latest_checkpoint),
            ("submitted", f"{output.age(job.submitted_ms)} ago" if job.submitted_ms else None),
            ("ran", _ran(job)),
            ("commit", job.lineage.get("git_commit")),
            ("page", job.url),
        ]
    )


def _state(job: Job) -> str:
    return f"{job.state} (stopping)" if job.stopping and not job.is_finished else job.state


def _step(job: Job) -> str | None:
    step, total = job.progress.get("step"), job.progress.get("total_steps")
    if step is None:
        return None
    return f"{step}/{total}" if total else str(step)


def _waits(job: Job) -> str:
    if not job.waiting:
        return ""
    position = job.waiting.get("position")
    place = [f"number {position} in the queue"] if position else []
    place += ["its place is kept"] if "reserved_start_ms" in job.waiting.get("numbers", {}) else []
    told = str(job.waiting.get("sentence", ""))
    return f"{told} ({', '.join(place)})" if place else told


def _ran(job: Job) -> str:
    if job.started_ms is None:
        return ""
    return (
        format_duration_ms(job.finished_ms - job.started_ms)
        if job.finished_ms
        else output.age(job.started_ms)
    )
