"""`trainmaster targets`: serving targets, and which of them the exports of a version serve."""

from __future__ import annotations

from typing import Any

import click

from platform_core.units import format_bytes, parse_bytes
from trainmaster.cli import output
from trainmaster.cli.gates import VERSION_HELP, model_path, version_path
from trainmaster.cli.session import connect

FORMATS = ["safetensors", "torchscript", "torch_export", "onnx"]
DTYPES = ["float32", "float16", "bfloat16"]


@click.group()
def targets() -> None:
    """Serving targets: what exports of models must meet where they are served."""


@targets.command("list")
@output.options
def list_(as_json: bool) -> None:
    """List the serving targets of your teams."""
    with connect() as client:
        rows: Any = client.call("GET", "serving-targets")["results"]
    if as_json:
        output.dump_json(rows)
        return
    output.table(
        ("TEAM", "TARGET", "CONSTRAINTS"),
        [(row["team"], row["name"], _written(row["constraints"])) for row in rows],
        empty="No serving target yet. A lead sets one: trainmaster targets set TEAM/NAME --max-latency-ms 5",
    )


@targets.command("set")
@click.argument("target")
@click.option("--max-latency-ms", type=float, default=0, help="Of one row, 95th percentile.")
@click.option("--max-memory", default="", help="Of the process that serves it, such as 2GiB.")
@click.option("--max-difference", type=float, default=0, help="The largest absolute one from the original.")
@click.option("--max-opset", type=int, default=0, help="Of ONNX.")
@click.option("--dtype", type=click.Choice(DTYPES), help="In which it computes.")
@click.option("--gpu-type", default="", help="Of the slots that serve: a job measures exports there.")
@click.option(
    "--format", "formats", type=click.Choice(FORMATS), multiple=True, help="That it loads; repeatable."
)
def set_(
    target: str, max_latency_ms: float, max_memory: str, max_difference: float, max_opset: int,
    dtype: str | None, gpu_type: str, formats: tuple[str, ...],
) -> None:  # fmt: skip
    """Set what TARGET, TEAM/NAME, asks of exports; what is not given it does not ask."""
    try:
        memory = parse_bytes(max_memory) if max_memory else 0
    except ValueError as error:
        raise click.UsageError(f"--max-memory: {error}") from error
    fields = {
        "max_latency_ms": max_latency_ms, "max_memory_bytes": memory, "max_difference": max_difference,
        "max_opset": max_opset, "dtype": dtype or "", "formats": list(formats), "gpu_type": gpu_type,
    }  # fmt: skip
    body = {name: value for name, value in fields.items() if value}
    with connect() as client:
        row: Any = client.call("PUT", f"serving-targets/{model_path(client, target)}", json=body)
    click.echo(f"{row['team']}/{row['name']}: {_written(row['constraints']) or 'asks nothing'}")


@targets.command("delete")
@click.argument("target")
def delete(target: str) -> None:
    """Delete TARGET, TEAM/NAME. It is refused while a gate, or a job that has not ended, asks for it."""
    with connect() as client:
        client.call("DELETE", f"serving-targets/{model_path(client, target)}")
    click.echo(f"{target} is deleted.")


@targets.command(
    "check", help=f"Show the exports of a version and which serving targets they serve.\n\n    {VERSION_HELP}"
)
@click.argument("version")
@click.option("--again", is_flag=True, help="Have the platform read its export.json again.")
@output.options
def check(version: str, again: bool, as_json: bool) -> None:
    with connect() as client:
        path = f"{version_path(client, version)}/exports"
        found: Any = client.call("POST" if again else "GET", path)
    if as_json:
        output.dump_json(found)
        return
    if found["problem"]:
        click.echo(found["problem"])
    output.table(
        ("FORMAT", "DTYPE", "DIFFERENCE", "P50 MS", "P95 MS", "MEMORY", "PROBLEM"),
        [row_of(export) for export in (found["report"] or {"exports": []})["exports"]],
        empty="No export that was read.",
    )
    for verdict in found["targets"]:
        click.echo(
            f"{verdict['target']}: {'served by ' + verdict['format'] if verdict['passed'] else 'not served'}"
        )
        for reason in verdict["reasons"]:
            click.echo(f"  {reason}")
        if measured := verdict.get("measurement"):  # an older platform measures nothing
            about = measured["reason"] or (measured["report"] or {}).get("device", "")
            click.echo(f"  measured on {measured['gpu_type']}: {measured['state']} {about}".rstrip())


@targets.command(
    "measure",
    help=f"Measure the exports of a version on a slot of TARGET, as a job of the platform.\n\n    {VERSION_HELP}",
)
@click.argument("version")
@click.argument("target")
def measure(version: str, target: str) -> None:
    with connect() as client:
        client.call("POST", f"{version_path(client, version)}/exports", json={"target": target})
    click.echo(f"It is being measured; see: trainmaster targets check {version}")


def row_of(export: Any) -> tuple[Any, ...]:
    """A line of the table, of an export as `export.json` has it."""
    difference = export["difference"]
    memory = export["memory_bytes"]
    return (
        export["format"], export["dtype"], _figure(difference["absolute"]) if difference else None,
        _figure(export["p50_ms"]), _figure(export["p95_ms"]), None if memory is None else format_bytes(memory),
        export["problem"],
    )  # fmt: skip


def _figure(value: float | None) -> str | None:
    return None if value is None else f"{value:.4g}"


def _written(constraints: Any) -> str:
    return ", ".join(
        f"{name} {', '.join(value) if isinstance(value, list) else value}"
        for name, value in constraints.items()
    )
