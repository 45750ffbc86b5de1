"""`trainmaster sweep`: start a sweep and follow it, and the commands for those that run."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from platform_core.units import MICRO_DOLLARS, format_micro_dollars
from trainmaster import bundle
from trainmaster.cli import job_file, output
from trainmaster.cli.commands import Failure
from trainmaster.cli.session import connect
from trainmaster.cli.submit import folder_of, send
from trainmaster.client import Client
from trainmaster.sweeps import Sweep, Sweeps, Trial

POLL_SECONDS = 2.0
SWEEP = click.argument("sweep", metavar="SWEEP")


class _StartsByDefault(click.Group):
    """`trainmaster sweep FILE` is `trainmaster sweep start FILE`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = args and (args[0] in self.commands or args[0].startswith("-"))
        return super().resolve_command(ctx, args if known else ["start", *args])


@click.group(cls=_StartsByDefault)
def sweep() -> None:
    """Search the best hyperparameters; `trainmaster sweep FILE` starts the sweep of a sweep file.

    SWEEP is the id of a sweep, or its name: of several with the name the newest.
    """


@sweep.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE",
    help="Change a field for this sweep, such as budget.trials=100; repeatable.",
)  # fmt: skip
@click.option("--key", default="", help="Idempotency key: a repeated key returns the sweep it made.")
@click.option("--detach", is_flag=True, help="Return at once instead of following the trials.")
@output.options
def start(file: Path, settings: tuple[str, ...], key: str, detach: bool, as_json: bool) -> None:
    """Start the sweep of the sweep file FILE, and follow its trials until it ends.

    `job` of the file is the path of a job file beside it, or the fields themselves. The code folder of the job is sent
    along, once for all trials. Ctrl-C ends the following, not the sweep.
    """
    spec = job_file.change(job_file.read(file), settings)
    with connect() as client:
        spec["team"] = client.only_team(str(spec.get("team") or ""))
        spec, lineage = _with_job(client, file, spec)
        row = Sweeps(client).start(spec, key=key or uuid.uuid4().hex, lineage=lineage)
        if as_json:
            output.dump(row)
        else:
            click.echo(row.id)
            click.echo(row.url)
        if not detach and not as_json:
            _follow(Sweeps(client), row.id)


def _with_job(
    client: Client, file: Path, spec: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, str] | None]:
    """The spec with the fields of its job, whose code is uploaded; and what is known of the code."""
    job, beside = spec.get("job"), file
    if isinstance(job, str):
        beside = file.parent / job
        job = job_file.read(beside)
    if not isinstance(job, dict):
        return spec, None
    job = {"name": spec.get("name"), **job, "team": spec["team"]}
    folder = folder_of(beside, job)
    if folder is not None:
        job["code"] = send(client, folder, job)
    return {**spec, "job": job}, bundle.lineage(folder or beside.parent)


def _follow(sweeps: Sweeps, sweep_id: str) -> None:
    known: dict[int, str] = {}
    while True:
        row = sweeps.show(sweep_id)
        best = (row.best or {}).get("number")
        for trial in sweeps.trials(sweep_id):
            if known.get(trial.number) != trial.state and (trial.is_ended or trial.state == "running"):
                click.echo(_line(trial, trial.number == best))
            known[trial.number] = trial.state
        if row.is_ended or row.state == "paused":
            click.echo(_end(row))
            return
        time.sleep(POLL_SECONDS)


def _line(trial: Trial, best: bool) -> str:
    value = "" if trial.value is None else f"  {trial.value:.5g}{' (best)' if best else ''}"
    why = f"  {trial.reason}" if trial.reason else ""
    setting = "  ".join(f"{name}={_short(at)}" for name, at in sorted(trial.parameters.items()))
    return f"trial {trial.number:>3}  {output.coloured(trial.state)}{value}  {setting}{why}"


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _cost(row: Sweep) -> str:
    return format_micro_dollars(round(row.cost * MICRO_DOLLARS))


def _end(row: Sweep) -> str:
    why = f": {row.reason}" if row.reason else ""
    used = f"{row.trials} trials, {row.gpu_hours:.2f} GPU-hours, {_cost(row)}"
    best = f"; best is trial {row.best['number']} with {row.best['value']:.5g}" if row.best else ""
    return f"The sweep is {row.state.replace('_', ' ')}{why}. {used}{best}."


@sweep.command("list")
@click.option("--team", default="", help="Only of this team.")
@click.option("--search", default="", help="Only with this text in the name.")
@output.options
def list_(team: str, search: str, as_json: bool) -> None:
    """List sweeps with their best value, newest first."""
    with connect() as client:
        rows = Sweeps(client).list(team=team, search=search)
    if as_json:
        output.dump(rows)
        return
    titles = ("SWEEP", "NAME", "TEAM", "STATE", "TRIALS", "PRUNED", "BEST", "GPU-HOURS", "AGE")
    lines = [
        (row.id, row.name, row.team, row.state, row.trials, row.pruned, (row.best or {}).get("value"),
         row.gpu_hours, output.age(row.created_ms))
        for row in rows
    ]  # fmt: skip
    output.table(titles, lines, empty="No sweeps yet. Start one: trainmaster sweep sweep.yaml")


@sweep.command()
@SWEEP
@output.options
def show(sweep: str, as_json: bool) -> None:
    """Show a sweep and its trials."""
    with connect() as client:
        row = _find(client, sweep)
        trials = Sweeps(client).trials(row.id)
    if as_json:
        output.dump(row)
        return
    output.facts(
        [
            ("sweep", row.id), ("name", row.name), ("state", row.state), ("why", row.reason), ("page", row.url),
            ("trials", row.trials), ("pruned", row.pruned), ("GPU-hours", row.gpu_hours), ("cost", _cost(row)),
        ]
    )  # fmt: skip
    names = sorted({name for trial in trials for name in trial.parameters})
    titles = ("TRIAL", "STATE", "VALUE", "STEP", *names, "JOB")
    lines = [
        (
            trial.number,
            trial.state,
            trial.value,
            trial.step,
            *(trial.parameters.get(name) for name in names),
            trial.job,
        )
        for trial in trials
    ]
    click.echo()
    output.table(titles, lines, empty="No trials yet.")


@sweep.command()
@SWEEP
@output.options
def pause(sweep: str, as_json: bool) -> None:
    """Submit no further trials; those that have begun go on."""
    with connect() as client:
        _print(Sweeps(client).pause(_find(client, sweep).id), as_json)


@sweep.command()
@SWEEP
@output.options
def resume(sweep: str, as_json: bool) -> None:
    """Go on with a paused sweep."""
    with connect() as client:
        _print(Sweeps(client).resume(_find(client, sweep).id), as_json)


@sweep.command()
@SWEEP
@output.options
def cancel(sweep: str, as_json: bool) -> None:
    """End a sweep and stop its trials; they may save first."""
    with connect() as client:
        _print(Sweeps(client).cancel(_find(client, sweep).id), as_json)


@sweep.command()
@SWEEP
@click.option("--trials", type=int, help="How many settings are tried.")
@click.option("--gpu-hours", type=float, help="Of all trials together; 0: no limit.")
@click.option("--cost", type=float, help="In dollars; 0: no limit.")
@click.option("--hours", type=float, help="Since the sweep was created; 0: no limit.")
@output.options
def budget(sweep: str, as_json: bool, **fields: float | None) -> None:
    """Change the budget; a sweep that has ended for lack of it goes on."""
    given = {name: value for name, value in fields.items() if value is not None}
    if not given:
        raise click.UsageError("Name at least one of --trials, --gpu-hours, --cost and --hours.")
    with connect() as client:
        _print(Sweeps(client).change_budget(_find(client, sweep).id, **given), as_json)


@sweep.command()
@SWEEP
@output.options
def best(sweep: str, as_json: bool) -> None:
    """Print the parameters of the best trial, as `--set` of `trainmaster submit` takes them."""
    with connect() as client:
        row = _find(client, sweep)
    if row.best is None:
        raise Failure(
            f"No trial of {row.name} has succeeded yet: {row.trials} trials, the sweep is {row.state}."
        )
    if as_json:
        output.dump(Trial.of(row.best))
        return
    click.echo(
        f"trial {row.best['number']}: {row.best['value']:.6g}  {row.best.get('job') or ''}".rstrip(), err=True
    )
    parameters: Mapping[str, Any] = row.best["parameters"]
    for name, value in sorted(parameters.items()):
        click.echo(f"hyperparameters.{name}={value}")


def _print(row: Sweep, as_json: bool) -> None:
    if as_json:
        output.dump(row)
    else:
        click.echo(f"{row.name} is {row.state.replace('_', ' ')}{f': {row.reason}' if row.reason else '.'}")


def _find(client: Client, reference: str) -> Sweep:
    """By its id, or the newest with the name."""
    if reference.startswith("sweep-"):
        return Sweeps(client).show(reference)
    named = [row for row in Sweeps(client).list(search=reference) if row.name == reference]
    if not named:
        raise Failure(f"There is no sweep {reference} you may see; `trainmaster sweep list` shows them.")
    return named[0]
