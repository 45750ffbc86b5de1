"""`trainmaster models` and `register`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

import click

from platform_core.units import format_bytes
from trainmaster import bundle
from trainmaster.answers import ModelVersion
from trainmaster.cli import output
from trainmaster.cli.session import connect
from trainmaster.cli.upload import name_left_out, upload
from trainmaster.client import Client
from trainmaster.models import Models

MODEL_OR_VERSION = click.argument("model", metavar="[TEAM/]NAME[:NUMBER]")


@click.group(invoke_without_command=True)
@output.options
@click.pass_context
def models(context: click.Context, as_json: bool) -> None:
    """List the versions of all models; show, describe, name and compare them."""
    if context.invoked_subcommand is None:
        _list(as_json)


@models.command("list")
@output.options
def list_(as_json: bool) -> None:
    """List the versions of all models."""
    _list(as_json)


def _list(as_json: bool) -> None:
    with connect() as client:
        rows = client.models()
    if as_json:
        output.dump(rows)
        return
    output.table(
        ("MODEL", "VERSION", "STATE", "STAGE", "ALIASES", "SIZE", "SOURCE", "REGISTERED"),
        [
            (
                row.model, row.version, row.state, row.stage, ", ".join(row.aliases),
                format_bytes(row.bytes) if row.bytes is not None else None,
                row.source, f"{output.age(row.created_ms)} ago" if row.created_ms else None,
            )
            for row in rows
        ],
        empty="No models yet. Register one: trainmaster register NAME --checkpoint ckpt-…",
    )  # fmt: skip


@models.command()
@MODEL_OR_VERSION
@output.options
def show(model: str, as_json: bool) -> None:
    """Show a model, or with :NUMBER one of its versions."""
    with connect() as client:
        team, name, number = _full(client, model)
        answer = Models(client).version(team, name, number) if number else Models(client).show(team, name)
    if as_json:
        output.dump(answer)
    elif isinstance(answer, ModelVersion):
        output.facts(_version_facts(answer))
    else:
        aliases = [f"{alias}: v{version}" for alias, version in answer.aliases.items()]
        output.facts(
            [
                ("model", f"{answer.team}/{answer.name}"), ("description", answer.description),
                ("tags", _tags(answer.tags)), ("aliases", ", ".join(aliases)),
                ("versions", ", ".join(map(str, answer.versions))),
            ]
        )  # fmt: skip


@models.command("set")
@MODEL_OR_VERSION
@click.option("--description", help="What it is, in a few sentences.")
@click.option("--tag", "tags", multiple=True, metavar="NAME=VALUE", help="Add or replace a tag; repeatable.")
@click.option("--untag", multiple=True, metavar="NAME", help="Take a tag away; repeatable.")
@click.option("--licence", help="Of a version: under which it may be used, such as MIT.")
@click.option(
    "--card",
    type=click.File(),
    help="Of a version: a file of Markdown that is added to its card; - is the input.",
)
@click.option(
    "--signature", type=click.File(),
    help="Of a version: a file of JSON with `inputs` and `outputs`, each a list of dtype and shape.",
)  # fmt: skip
def set_(
    model: str, description: str | None, tags: tuple[str, ...], untag: tuple[str, ...], licence: str | None,
    card: TextIO | None, signature: TextIO | None,
) -> None:  # fmt: skip
    """Describe and tag a model, or with :NUMBER one of its versions."""
    fields: dict[str, Any] = {"description": description, "licence": licence}
    fields |= {"card": card.read() if card else None, "signature": _json(signature)}
    fields = {name: value for name, value in fields.items() if value is not None}
    if changed := {**_given(tags), **dict.fromkeys(untag)}:
        fields["tags"] = changed
    if not fields:
        raise click.UsageError("Give what to change, such as --description or --tag NAME=VALUE.")
    with connect() as client:
        team, name, number = _full(client, model)
        if number:
            Models(client).edit_version(team, name, number, **fields)
        elif rest := sorted(fields.keys() - {"description", "tags"}):
            raise click.UsageError(f"--{rest[0]} is of a version; name one, such as {model}:1.")
        else:
            Models(client).edit(team, name, **fields)
    click.echo(f"{model} is changed.")


@models.command()
@MODEL_OR_VERSION
@click.argument("name")
@click.option("--remove", is_flag=True, help="Take the alias away; MODEL needs no number.")
def alias(model: str, name: str, remove: bool) -> None:
    """Give a version the alias NAME, such as champion or challenger, or take one away.

    The version that had it loses it. `champion` and `production` ask the gate of the version.
    """
    with connect() as client:
        team, model_name, number = _full(client, model)
        if remove:
            Models(client).delete_alias(team, model_name, name)
        elif not number:
            raise click.UsageError(f"Name a version, such as {model}:1.")
        else:
            Models(client).set_alias(team, model_name, name, number)
    click.echo(f"{model} is {'no longer ' if remove else ''}called {name}.")


@models.command()
@MODEL_OR_VERSION
def card(model: str) -> None:
    """Print the card of a version in Markdown: origin, metrics, evaluations, exports, and what people added."""
    with connect() as client:
        team, name, number = _full(client, model)
        if not number:
            raise click.UsageError(f"Name a version, such as {model}:1.")
        click.echo(Models(client).card(team, name, number), nl=False)


@models.command()
@click.argument("model", metavar="[TEAM/]NAME")
@click.argument("before", type=int, required=False)
@click.argument("after", type=int, required=False)
@output.options
def compare(model: str, before: int | None, after: int | None, as_json: bool) -> None:
    """Compare two versions: metrics, evaluation results, formats, size and latency, data and configuration.

    Without numbers: the version in production and the newest one.
    """
    with connect() as client:
        team, name, _ = _full(client, model)
        found = Models(client).compare(team, name, before, after)
    if as_json:
        output.dump(found)
        return
    lines = [
        (section["title"], line["name"], line["before"], line["after"], line["change"])
        for section in found.sections
        for line in section["lines"]
    ]
    titles = ("", "WHAT", f"V{found.before}", f"V{found.after}", "CHANGE")
    output.table(titles, lines, empty=f"{model} has fewer than two versions, or they do not differ.")


def _version_facts(row: ModelVersion) -> list[tuple[str, object]]:
    size = format_bytes(row.bytes) if row.bytes is not None else ""
    sides = {side: "; ".join(map(_tensor, row.signature.get(side, ()))) for side in ("inputs", "outputs")}
    return [
        ("version", f"{row.model} v{row.version}"), ("id", row.id), ("state", row.state), ("error", row.error),
        ("stage", row.stage), ("aliases", ", ".join(row.aliases)), ("tags", _tags(row.tags)),
        ("description", row.description), ("licence", row.licence), ("formats", ", ".join(row.formats)),
        ("size", size), *sides.items(), ("source", row.source),
    ]  # fmt: skip


def _tensor(tensor: Any) -> str:
    shape = ", ".join("any" if size is None else str(size) for size in tensor["shape"])
    return f"{tensor.get('name', '')} {tensor['dtype']} [{shape}]".lstrip()


def _tags(tags: Mapping[str, str]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in sorted(tags.items()))


def _given(tags: tuple[str, ...]) -> dict[str, str | None]:
    pairs = [tag.partition("=") for tag in tags]
    if not all(name and mark for name, mark, _ in pairs):
        raise click.UsageError("--tag takes NAME=VALUE, such as --tag data=2026-11.")
    return {name: value for name, _, value in pairs}


def _json(file: TextIO | None) -> Any:
    try:
        return None if file is None else json.load(file)
    except ValueError as error:
        raise click.UsageError(f"The signature is not JSON: {error}") from error


def _full(client: Client, reference: str) -> tuple[str, str, int]:
    """Team, name and number; 0 for a model."""
    model, _, number = reference.rpartition(":")
    if not model:
        model, number = reference, "0"
    if not number.isdigit():
        raise click.UsageError(f"{reference} is not NAME or NAME:NUMBER, such as bytelm:3.")
    team, _, name = model.rpartition("/")
    return client.only_team(team), name, int(number)


@click.command()
@click.argument("name")
@click.option(
    "--checkpoint",
    default="",
    help="Id of a checkpoint, ckpt-…, as `show JOB` prints it.",
)
@click.option(
    "--url", default="", help="Folder of files in a store, s3://… or file://…; the files stay there."
)
@click.option(
    "--folder", type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of files here, such as what `export-model` wrote; they are sent.",
)  # fmt: skip
@click.option(
    "--artifact", default="", metavar="RUN/FOLDER",
    help="Folder or file that a run logged, such as job-…/exported; the version knows what it comes from.",
)  # fmt: skip
@click.option("--team", default="", help="Team that owns it; not needed if you are in one team only.")
@output.options
def register(
    name: str, checkpoint: str, url: str, folder: Path | None, artifact: str, team: str, as_json: bool
) -> None:
    """Register the next version of the model NAME, from a checkpoint, an artifact of a run, files in a store, or a
    folder."""
    if sum(map(bool, (checkpoint, url, folder, artifact))) != 1:
        raise click.UsageError("Give one of --checkpoint, --artifact, --url and --folder.")
    with connect() as client:
        owner = client.only_team(team)
        manifest = ""
        if folder is not None:
            files = bundle.data_files(folder)
            name_left_out(bundle.left_out(folder, files), "files of tools")
            if not files:
                raise click.UsageError(f"The folder {folder} has no files.")
            manifest = upload(client, "model", owner, name, files, f" of the model {name}")
        version = client.register_version(
            name, team=owner, checkpoint=checkpoint, source_url=url, manifest=manifest, artifact=artifact
        )
    if as_json:
        output.dump(version)
        return
    click.echo(f"{version.model} version {version.version}")
    if version.state == "registering":
        click.echo("Its files are being read and verified; see `trainmaster models`.", err=True)
