"""`trainmaster runs efficiency` and `jobs profile`: where the time of a run goes, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import click

from trainmaster.cli import output, references
from trainmaster.cli.jobs import jobs
from trainmaster.cli.runs import runs
from trainmaster.cli.session import connect

FILES = {
    "trace": "profile-{number}-rank-{rank}.json.gz",
    "memory": "memory-{number}-rank-{rank}.json.gz",
    "flame": "flame-{number}-rank-{rank}.folded.txt",
}
_PARTS = ("compute", "communication", "data", "checkpoint", "evaluation")


@runs.command()
@click.argument("run")
@output.options
def efficiency(run: str, as_json: bool) -> None:
    """Show where the time of a run goes, its MFU and what limits it. RUN is its id, or the id of its job."""
    with connect() as client:
        found: Any = client.call("GET", f"runs/{quote(run, safe='')}/efficiency")
    if as_json:
        output.dump_json(found)
        return
    if found["breakdown"] is None:
        click.echo("Nothing measured yet. The SDK measures a loop that calls trainmaster.log(step, …).")
        return
    shares = [(part, found["breakdown"][part]) for part in _PARTS]
    click.echo(", ".join(f"{part} {_percent(share)}" for part, share in shares if share is not None))
    mfu = found.get("mfu_missing") or _percent(found["mfu"])
    click.echo(f"step {found['step_seconds'] * 1000:,.4g} ms, MFU {mfu}, ", nl=False)
    click.echo(f"utilisation {_percent(found['utilisation'])}")
    if found["breakdown"].get("is_mixed"):
        click.echo("The ranks differ: one waits for the others where another computes.")
    if found.get("not_measured"):
        click.echo(found["not_measured"])
    output.table(
        ("ADVICE", "EVIDENCE", "REMEDY", "GAIN"),
        [
            (line["code"], line["evidence"], line["remedy"], _percent(line["gain"]))
            for line in found["advice"]
        ],
        empty="Nothing that is measured limits this run.",
    )


@jobs.command(
    help=f"""Record the next steps of a running job, without a restart.

    A trace of torch's profiler, its memory, or a flame graph of where its threads are. The page of the job shows
    it under Artifacts.

    {references.HELP}"""
)
@click.argument("job", type=references.JOB)
@click.option("--steps", default=20, show_default=True, type=click.IntRange(1, 200), help="Steps to record.")
@click.option("--rank", "ranks", multiple=True, default=[0], show_default=True, help="Rank; may be repeated.")
@click.option(
    "--kind", default="trace", show_default=True, type=click.Choice(sorted(FILES)), help="What to record."
)
def profile(job: str, steps: int, ranks: Sequence[int], kind: str) -> None:
    with connect() as client:
        job_id = references.job_id(client, job)
        body = {"steps": steps, "ranks": list(ranks), "kind": kind}
        found: Any = client.call("POST", f"training-jobs/{job_id}/profile", json=body)
    for rank in found["ranks"]:
        file = FILES[kind].format(number=found["number"], rank=rank)
        click.echo(f"Rank {rank} records {found['steps']} steps: artifact {file}")


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"
