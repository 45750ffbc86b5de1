"""`trainmaster jobs`, `show` and `cancel`."""

from __future__ import annotations

import click
import yaml

from platform_core.jobs.parallel import title_of
from platform_core.jobs.spec import given
from platform_core.units import format_duration_ms, plural
from trainmaster.answers import Deployment, Job
from trainmaster.cli import deployments, output, references
from trainmaster.cli.session import connect

DEPLOYMENT = "dep-"


@click.group(invoke_without_command=True)
@click.pass_context
@click.option("--state", default="", help="A state, or a group of states: active, waiting or finished.")
@click.option("--team", default="", help="Only of this team.")
@click.option("--user", default="", help="Only of this username.")
@click.option("--search", default="", help="Part of the name or project, or the beginning of the id.")
@click.option(
    "-n",
    "--limit",
    default=20,
    show_default=True,
    type=click.IntRange(1, 10_000),
    help="Jobs to show at most.",
)
@output.options
def jobs(
    ctx: click.Context, state: str, team: str, user: str, search: str, limit: int, as_json: bool
) -> None:
    """List jobs, newest first; `jobs stacks` and `jobs restart` are for one that hangs."""
    if ctx.invoked_subcommand is not None:
        return
    with connect() as client:
        rows = list(client.jobs(limit=limit, state=state, team=team, user=user, search=search))
    if as_json:
        output.dump(rows)
        return
    output.table(
        ("ID", "NAME", "TEAM", "STATE", "STEP", "LOSS", "GPUS", "TYPE", "SUBMITTED"),
        [
            (
                job.id, job.name, job.team, _state(job), _step(job), job.progress.get("loss"), job.num_gpus,
                job.gpu_type, f"{output.age(job.submitted_ms)} ago",
            )
            for job in rows
        ],
        empty="No jobs.",
    )  # fmt: skip


@click.command(
    help=f"""Show a job, or a deployment (dep-…).

    {references.HELP}"""
)
@click.argument("job", type=references.JOB)
@click.option("--spec", "only_spec", is_flag=True, help="Print the job file only, to submit it again.")
@output.options
def show(job: str, only_spec: bool, as_json: bool) -> None:
    with connect() as client:
        if job.startswith(DEPLOYMENT):
            shown: Deployment | Job = client.deployment(job)
        else:
            shown = client.job(references.job_id(client, job))
    if as_json:
        output.dump(shown)
    elif isinstance(shown, Deployment):
        deployments.show(shown)
    elif only_spec:
        click.echo(yaml.safe_dump(given(shown.spec), sort_keys=False, allow_unicode=True), nl=False)
    else:
        _show(shown)


@click.command(
    help=f"""Cancel a job, or a deployment (dep-…).

    A waiting job is cancelled at once, a running one once its processes have stopped.

    {references.HELP}"""
)
@click.argument("job", type=references.JOB)
def cancel(job: str) -> None:
    with connect() as client:
        if job.startswith(DEPLOYMENT):
            click.echo(f"{job} is {client.cancel_deployment(job).status}.")
            return
        cancelled = client.cancel(references.job_id(client, job))
    state = cancelled.state if cancelled.is_finished else f"{cancelled.state} and stops now"
    click.echo(f"{cancelled.id} ({cancelled.name}) is {state}.")


def _show(job: Job) -> None:
    progress = job.progress
    output.facts(
        [
            ("job", f"{job.id}  {job.name}"),
            ("state", _state(job)),
            ("hangs", f"{job.hang}; `trainmaster jobs restart` restarts it" if job.hang else None),
            ("end", job.end["label"] if job.end else None),
            ("reason", job.reason),
            ("remedy", job.end["remedy"] if job.end and not job.waiting else None),
            ("waits", _wait_reason(job)),
            ("team", f"{job.team}, submitted by {job.user}" if job.user else job.team),
            ("GPUs", f"{job.num_gpus} x {job.gpu_type}"),
            ("layout", title_of(job.spec, job.num_gpus)),
            ("step", _step(job)),
            ("loss", progress.get("loss")),
            ("learning rate", progress.get("learning_rate")),
            ("utilisation", _share(progress.get("utilisation"))),
            ("MFU", _share(job.mfu)),
            (
                "attempt",
                f"{job.attempt}, restarted {plural(job.restarts, 'time')}"
                if job.restarts
                else job.attempt or None,
            ),
            ("checkpoint", _checkpoint(job)),
            ("submitted", f"{output.age(job.submitted_ms)} ago" if job.submitted_ms else None),
            ("run time", _run_time(job)),
            ("time left", _time_left(job)),
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


def _wait_reason(job: Job) -> str:
    if not job.waiting:
        return ""
    position = job.waiting.get("position")
    details = [f"position {position} in the queue"] if position else []
    details += ["nodes are reserved for it"] if "reserved_start_ms" in job.waiting.get("numbers", {}) else []
    sentence = str(job.waiting.get("sentence", ""))
    return f"{sentence} ({', '.join(details)})" if details else sentence


def _run_time(job: Job) -> str:
    if job.started_ms is None:
        return ""
    return (
        format_duration_ms(job.finished_ms - job.started_ms)
        if job.finished_ms
        else output.age(job.started_ms)
    )


def _time_left(job: Job) -> str | None:
    left = job.progress.get("remaining_ms")
    return f"about {format_duration_ms(left)} at this pace" if left else None


def _checkpoint(job: Job) -> str:
    saved_ms = job.progress.get("latest_checkpoint_ms")
    return f"{job.latest_checkpoint}, {output.age(saved_ms)} ago" if saved_ms else job.latest_checkpoint


def _share(value: float | None) -> str | None:
    """Of 0 to 1."""
    return None if value is None else f"{100 * value:.0f} %"
