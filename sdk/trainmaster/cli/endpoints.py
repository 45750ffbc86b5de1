"""`trainmaster endpoints`: serve a version of a model, change it with a canary, scale and stop it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TextIO

import click

from platform_core.units import format_bytes, plural
from trainmaster.cli import job_file, output
from trainmaster.cli.session import connect
from trainmaster.cli.submit import send
from trainmaster.client import Client
from trainmaster.endpoints import Endpoint, Endpoints, Replica

ENDPOINT = click.argument("endpoint", metavar="[TEAM/]NAME")


@click.group()
def endpoints() -> None:
    """Serve versions of models behind one address each.

    NAME alone is the endpoint of your only team.
    """


@endpoints.command("list")
@output.options
def list_(as_json: bool) -> None:
    """List the endpoints of your teams that are not stopped."""
    with connect() as client:
        rows = Endpoints(client).list()
    if as_json:
        output.dump(rows)
        return
    lines = [
        (
            row.name, row.team, row.state, f"{row.model}:{row.version}", row.canary, f"{row.ready}/{row.wanted}",
            row.address,
        )
        for row in rows
    ]  # fmt: skip
    titles = ("ENDPOINT", "TEAM", "STATE", "MODEL", "CANARY", "READY", "ADDRESS")
    output.table(titles, lines, empty="No endpoints yet. Make one: trainmaster endpoints create NAME MODEL")


@endpoints.command()
@ENDPOINT
@output.options
def show(endpoint: str, as_json: bool) -> None:
    """Show an endpoint and its replicas."""
    with connect() as client:
        row = Endpoints(client).show(*_full(client, endpoint))
    if as_json:
        output.dump(row)
        return
    output.facts(
        [
            ("endpoint", f"{row.team}/{row.name}"), ("state", row.state), ("why", row.reason),
            ("model", f"{row.model}:{row.version}"), ("canary", row.canary), ("verdict", row.verdict),
            ("address", row.address), ("replicas", f"{row.ready} of {row.wanted} ready"),
            ("limits", f"{row.spec['min_replicas']} to {row.spec['max_replicas']}" if row.spec else ""),
            ("gpus", row.spec.get("gpus")), ("scaling", row.scaling_reason), ("owner", row.user),
        ]
    )  # fmt: skip
    replicas = [Replica.of(line) for line in row.replicas]
    lines = [(one.id, one.version, one.state, output.age(one.since_ms), one.job) for one in replicas]
    click.echo()
    output.table(("REPLICA", "VERSION", "STATE", "SINCE", "JOB"), lines, empty="No replicas.")


@endpoints.command()
@click.argument("name")
@click.argument("model")
@click.option("--team", default="", help="Team that serves; not needed if you are in one team only.")
@click.option(
    "--version", type=click.IntRange(0), default=0, help="Of the model; by default the newest that is ready."
)
@click.option("--gpu-type", default="cpu", show_default=True, help="cpu takes CPU slots instead of GPUs.")
@click.option(
    "--gpus", type=click.IntRange(1), default=1, show_default=True, help="Of each replica, on one node."
)
@click.option(
    "--min",
    "minimum",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    help="Least replicas; 0: it scales to zero.",
)
@click.option("--max", "maximum", type=click.IntRange(1), help="Most replicas; by default the least.")
@click.option(
    "--target-latency-ms", type=click.IntRange(0), default=0, help="A greater p99 asks for one more replica."
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Any other field, such as max_batch=8; repeatable.",
)
@click.option(
    "--code", type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with the code of `entry`; it is sent along.",
)  # fmt: skip
@output.options
def create(
    name: str, model: str, team: str, version: int, gpu_type: str, gpus: int, minimum: int,
    maximum: int | None, target_latency_ms: int, settings: tuple[str, ...], code: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Serve MODEL under NAME; the replicas start as soon as there are slots."""
    with connect() as client:
        spec: dict[str, Any] = {
            "name": name, "team": client.only_team(team), "model": model, "version": version, "gpu_type": gpu_type,
            "gpus": gpus, "min_replicas": minimum, "max_replicas": maximum or max(1, minimum),
            "target_latency_ms": target_latency_ms,
        }  # fmt: skip
        spec = job_file.change(spec, settings)
        if code is not None:
            spec["code"] = send(client, code, spec)
        row = Endpoints(client).create(spec)
    _print(row, as_json)
    if not as_json:
        click.echo(row.address)


@endpoints.command()
@ENDPOINT
@click.argument("version", type=click.IntRange(1))
@click.option(
    "--share",
    "share_percent",
    type=click.FloatRange(0.01, 100),
    help="Percent of the requests, 10 by default.",
)
@click.option(
    "--watch",
    "watch_seconds",
    type=click.IntRange(0),
    metavar="SECONDS",
    help="How long it is watched, 60 by default.",
)
@click.option("--min-requests", type=click.IntRange(0), help="That it must have answered, 100 by default.")
@click.option(
    "--max-error-increase", type=click.FloatRange(0, 1), help="Of the share of errors, 0.01 by default."
)
@click.option("--max-latency-ratio", type=click.FloatRange(1), help="Of the p99 values, 1.5 by default.")
@click.option(
    "--max-accuracy-loss",
    type=click.FloatRange(0, 1),
    help="By labels that came since then, 0.02 by default.",
)
@click.option(
    "--same-outputs", is_flag=True, help="Roll it back where its outputs are distributed otherwise."
)
@click.option("--shadow", is_flag=True, help="Only copies of requests; no caller gets its answers.")
@click.option(
    "--min-agreement", type=click.FloatRange(0, 1), help="Share of a shadow's answers that are alike."
)
@click.option("--manual", is_flag=True, help="Wait for `promote` or `rollback`.")
@output.options
def change(endpoint: str, version: int, manual: bool, as_json: bool, **policy: Any) -> None:
    """Start a canary with VERSION; it takes over, or is rolled back, by what its requests show."""
    given = {name: value for name, value in policy.items() if value is not None and value is not False}
    given |= {"automatic": False} if manual else {}
    with connect() as client:
        _print(Endpoints(client).change(*_full(client, endpoint), version, **given), as_json)


@endpoints.command()
@ENDPOINT
@click.argument("file", type=click.File())
def label(endpoint: str, file: TextIO) -> None:
    """Send what requests should have been answered: FILE has a JSON object a line, {"request": ID, "label": VALUE}."""
    try:
        rows = [json.loads(line) for line in file if line.strip()]
        labels = {row["request"]: row["label"] for row in rows}
    except (ValueError, KeyError, TypeError) as error:
        raise click.UsageError(
            f'{file.name}: each line must be {{"request": ID, "label": VALUE}}: {error}'
        ) from error
    with connect() as client:
        answer = Endpoints(client).label(*_full(client, endpoint), labels)
    unknown, other = len(answer["unknown"]), len(answer["other_shape"])
    click.echo(
        f"{plural(answer['joined'], 'label')} joined; {unknown} of unknown requests, {other} of another shape."
    )


@endpoints.command()
@ENDPOINT
@click.argument("minimum", type=click.IntRange(0))
@click.argument("maximum", type=click.IntRange(1))
@output.options
def scale(endpoint: str, minimum: int, maximum: int, as_json: bool) -> None:
    """Change the least and the most replicas it may have."""
    with connect() as client:
        _print(Endpoints(client).scale(*_full(client, endpoint), minimum, maximum), as_json)


@endpoints.command()
@ENDPOINT
@output.options
def canary(endpoint: str, as_json: bool) -> None:
    """Show what is known of the version under trial, beside the version in use."""
    with connect() as client:
        trial = Endpoints(client).canary(*_full(client, endpoint))
    if as_json:
        output.dump_json(trial)
        return
    part = f"{trial['share_percent']:g} % of the requests" + (", in the shadow" if trial["shadow"] else "")
    facts = [("share", part), ("verdict", trial["verdict"])]
    if trial["compared"]:
        facts.append(("alike", f"{trial['alike']} of {trial['compared']} answers"))
        facts.append(("difference", f"{trial['mean_difference']:.4g} of their numbers in the mean"))
    output.facts([*facts, ("moved", ", ".join(trial["moved_outputs"]))])
    click.echo()
    lines = [
        (
            f"{role} v{one['version']}", one["requests"], one["failures"], _figure(one["p50_ms"]),
            _figure(one["p99_ms"]), _figure(one["accuracy"]), one["labelled"],
        )
        for role, one in (("canary", trial["canary"]), ("in use", trial["stable"]))
    ]  # fmt: skip
    output.table(
        ("VERSION", "REQUESTS", "FAILURES", "P50 MS", "P99 MS", "ACCURACY", "LABELLED"), lines, empty=""
    )


@endpoints.command()
@ENDPOINT
@click.option("--now", is_flag=True, help="Make a version of the dataset now, not once a day.")
@output.options
def collected(endpoint: str, now: bool, as_json: bool) -> None:
    """Show what is kept of the requests to an endpoint as a dataset."""
    with connect() as client:
        ask = Endpoints(client).collect if now else Endpoints(client).collection
        found = ask(*_full(client, endpoint))
    if as_json:
        output.dump_json(found)
        return
    kept = f"{found['requests']:,} ({format_bytes(found['size'])}), {found['fresh']:,} in no version yet"
    output.facts(
        [
            ("dataset", found["dataset"]), ("version", found["version"]),
            ("purposes", ", ".join(found["purposes"]) or "none: nothing is collected"),
            ("requests", kept), ("kept", plural(found["days"], "day")), ("error", found["error"]),
        ]
    )  # fmt: skip


@endpoints.command()
@ENDPOINT
@output.options
def promote(endpoint: str, as_json: bool) -> None:
    """Let the canary take over now."""
    with connect() as client:
        _print(Endpoints(client).promote(*_full(client, endpoint)), as_json)


@endpoints.command()
@ENDPOINT
@output.options
def rollback(endpoint: str, as_json: bool) -> None:
    """End the canary: all requests go to the version before it."""
    with connect() as client:
        _print(Endpoints(client).roll_back(*_full(client, endpoint)), as_json)


@endpoints.command()
@ENDPOINT
@output.options
def stop(endpoint: str, as_json: bool) -> None:
    """Stop an endpoint; its replicas answer what they have and end."""
    with connect() as client:
        _print(Endpoints(client).stop(*_full(client, endpoint)), as_json)


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _full(client: Client, endpoint: str) -> tuple[str, str]:
    team, _, name = endpoint.rpartition("/")
    return client.only_team(team), name


def _print(row: Endpoint, as_json: bool) -> None:
    if as_json:
        output.dump(row)
        return
    role = "shadow" if row.shadow else "canary"
    canary = f", version {row.canary} is its {role}" if row.canary else ""
    click.echo(f"{row.team}/{row.name} is {row.state} with {row.model} version {row.version}{canary}.")
