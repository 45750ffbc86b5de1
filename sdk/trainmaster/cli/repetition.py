"""`trainmaster rerun` and `reproduction`."""

from __future__ import annotations

import uuid

import click

from trainmaster.cli import output, references
from trainmaster.cli.logs import follow
from trainmaster.cli.session import connect


@click.command(
    help=f"""Submit a job once more as it was: the same code, data, image, settings and seed.

    {references.HELP}"""
)
@click.argument("job", type=references.JOB)
@click.option("-f", "--follow", "following", is_flag=True, help="Stay and print the log until the job ends.")
@output.options
def rerun(job: str, following: bool, as_json: bool) -> None:
    with connect() as client:
        made = client.run_again(references.job_id(client, job), idempotency_key=uuid.uuid4().hex)
        if as_json:
            output.dump(made)
        else:
            click.echo(made.id)
            click.echo(made.url)
        if following:
            follow(client, made.id)


@click.command(
    help=f"""Compare a job with the one that it repeats: what they are made of, and whether their metrics agree.

    {references.HELP}"""
)
@click.argument("job", type=references.JOB)
@output.options
def reproduction(job: str, as_json: bool) -> None:
    with connect() as client:
        found = client.reproduction(references.job_id(client, job))
    if as_json:
        output.dump(found)
        return
    click.echo(f"It repeats {found.repeats}. {found.sentence}")
    output.table(
        ("MADE OF", "NAME", "ORIGINAL", "THIS JOB"),
        [
            (subject["name"], change["name"], _short(change["before"]), _short(change["after"]))
            for subject in found.subjects
            for change in subject["changes"]
        ],
        empty="Nothing that is known differs.",
    )
    output.table(
        ("METRIC", "RESULT", "ORIGINAL", "THIS JOB", "DEVIATION"),
        [
            (row["name"], row["agreement"], row["before"], row["after"], row["deviation"])
            for row in found.metrics
        ],
        empty="No metrics to compare.",
    )


def _short(text: str | None) -> str:
    return "none" if text is None else text if len(text) <= 60 else f"{text[:59]}…"
