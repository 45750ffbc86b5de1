"""`trainmaster plan`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import yaml

from platform_core.jobs.parallel import ORDER
from platform_core.units import format_bytes, format_duration_ms, format_micro_dollars
from trainmaster.cli import output
from trainmaster.cli.commands import Failure
from trainmaster.cli.session import connect


@click.command()
@click.argument("model", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--gpus", type=int, help="GPUs of the whole training.")
@click.option("--gpu-type", help="Such as h100-80gb.")
@click.option("--sequence", type=int, help="Tokens of one sample.")
@click.option("--batch", "global_batch", type=int, help="Sequences of one step.")
@click.option(
    "--tokens", "tokens_billions", type=float, help="Billions of tokens to train on, for days and cost."
)
@click.option("--network-gbit", type=int, help="What a node sends, in Gbit/s.")
@click.option("--precision", type=click.Choice(["bf16", "fp8"]), help="Of matrix products.")
@click.option("--scaling", is_flag=True, help="Also show the fastest layout on 8 to 4,096 GPUs.")
@output.options
def plan(model: Path, scaling: bool, as_json: bool, **changes: Any) -> None:
    """Plan the parallelism of a training: the fastest layouts that fit, with time, memory and cost.

    MODEL is a YAML file of docs/how-to/plan-parallelism.md, or a Hugging Face config.json. Options replace its fields.
    """
    asked = {**_read(model), **{name: value for name, value in changes.items() if value is not None}}
    with connect() as client:
        found = client.plan_parallelism(asked, scaling=scaling)
    if as_json:
        output.dump(found)
        return
    click.echo(found.sentence)
    if found.calibration:
        click.echo(f"Step times: {found.calibration['sentence']}.")
    if found.refusal and not found.plans:
        click.echo(found.refusal)
    output.table(
        ("LAYOUT", "MICRO-BATCH", "STEP", "TOKENS/S", "MFU", "MEMORY", "TIME", "COST", "LIMITED BY"),
        [_row(one) for one in found.plans],
        empty="No layout fits.",
    )
    if found.too_large:
        click.echo("\nFaster, but they do not fit:")
        for one in found.too_large:
            click.echo(f"  {one['title']}, micro-batches of {one['micro_batch']}: {one['sentence']}")
    if found.plans and (parallel := found.plans[0].get("parallel")):
        gpus = math.prod(parallel.get(name, 1) for name in ORDER)
        block = {"num_gpus": gpus, "parallel": parallel, "transformer": found.plans[0].get("transformer", {})}
        click.echo(f"\nThe first of them in a job file:\n\n{yaml.safe_dump(block, sort_keys=False)}")
    if found.scaling:
        output.table(
            ("GPUS", "LAYOUT", "TOKENS/S", "MFU", "EFFICIENCY"),
            [
                (
                    one["gpus"],
                    one["title"],
                    one["tokens_per_second"],
                    f"{one['mfu']:.0%}",
                    f"{one['efficiency']:.0%}",
                )
                for one in found.scaling
            ],
            empty="",
        )


def _read(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text()) if file.suffix == ".json" else yaml.safe_load(file.read_text())
    except (ValueError, yaml.YAMLError) as error:
        raise Failure(f"{file} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise Failure(f"{file} holds no mapping of fields; docs/how-to/plan-parallelism.md shows one.")
    # Every Hugging Face configuration names its kind at the top, which a question to the planner has not.
    marks = {"model_type", "architectures", "hidden_size", "n_embd"}
    return {"config": content} if marks & content.keys() else content


def _memory(one: Mapping[str, Any]) -> str:
    size = format_bytes(one["memory_bytes"]["total"])
    return f"{size}, may not fit" if one.get("may_not_fit") else size


def _row(one: Mapping[str, Any]) -> tuple[Any, ...]:
    run = one["run"]
    cost = (
        format_micro_dollars(run["cost_micro_dollars"]) if run and run["cost_micro_dollars"] else "no price"
    )
    return (
        one["title"], one["layout"]["micro_batch"], format_duration_ms(one["step_ms"]), one["tokens_per_second"],
        f"{one['mfu']:.0%}", _memory(one),
        format_duration_ms(run["duration_ms"]) if run else "", cost if run else "",
        one["limited_by"],
    )  # fmt: skip
