"""Writes the reference pages that follow from the code: states/*.md, errors.md, cli.md, job-file.md,
sweep-file.md, device-health.md. `make docs`.

What a person wrote above the marker in a page stays; what stands below it is made anew. The check compares.
"""

import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import click

from platform_core.alerting import builtin
from platform_core.alerting.expression import text_of
from platform_core.alerting.measures import MEASURES
from platform_core.cluster import device_health, health
from platform_core.distribution.deployments import deployment
from platform_core.distribution.deployments.deployment import WorkerState
from platform_core.distribution.rollouts import rollout
from platform_core.distribution.rollouts import states as rollout_states
from platform_core.errors import CATALOGUE
from platform_core.jobs import states as job_states
from platform_core.jobs import transitions as job_transitions
from platform_core.jobs.ends import ENDS
from platform_core.jobs.fields import Field, Group
from platform_core.jobs.spec import FIELDS
from platform_core.sweeps import spec as sweep_spec
from platform_core.sweeps import states as sweep_states
from platform_core.sweeps import transitions as sweep_transitions
from platform_core.sweeps import trials as sweep_trials
from platform_core.units import format_duration_ms
from trainmaster.cli import main as command_line

DOCS = Path(__file__).resolve().parent.parent / "docs" / "reference"
WORKERS = {
    WorkerState.IDLE: "It is part of the deployment and has not received a piece yet.",
    WorkerState.RECEIVING: "Pieces arrive, from the store or from another worker, and are verified one by one.",
    WorkerState.COMPLETE: "It holds every file, each with the SHA-256 of the manifest.",
    WorkerState.FAILED: "It cannot go on, or its node is lost. Its neighbours do without it; it may come back.",
    WorkerState.EVICTED: "It was complete; since then its node has evicted the files to free disk space.",
}
MARKER = "<!-- Made by `make docs` from here on. -->"


@dataclass(frozen=True)
class Machine:
    """`moves` gives, for a state, each event's name and the states it may lead to."""

    page: str
    title: str
    descriptions: Mapping[str, str]
    moves: Mapping[str, list[tuple[str, Iterable[str]]]]
    first: str = ""  # the state that it begins in, if not the first one described


def by_event(table: Mapping[tuple[str, type], Iterable[str]]) -> dict[str, list[tuple[str, Iterable[str]]]]:
    moves: dict[str, list[tuple[str, Iterable[str]]]] = {}
    for (state, event), targets in table.items():
        moves.setdefault(state, []).append((f"`{event.__name__}`", targets))
    return moves


def machines() -> Iterator[Machine]:
    yield Machine("jobs", "Job states", job_states.DESCRIPTION, by_event(job_transitions.TRANSITIONS))
    yield Machine(
        "nodes", "Node states", health.DESCRIPTION, by_event(health.TRANSITIONS), health.NodeState.LOST
    )
    yield Machine(
        "deployments", "Deployment states", deployment.DESCRIPTION, by_event(deployment.TRANSITIONS)
    )
    workers = {state: [("", targets)] for state, targets in deployment.WORKER_TRANSITIONS.items()}
    yield Machine("workers", "States of a worker in a deployment", WORKERS, workers)
    yield Machine("sweeps", "Sweep states", sweep_states.DESCRIPTION, by_event(sweep_transitions.TRANSITIONS))
    yield Machine(
        "trials",
        "Trial states",
        sweep_states.TRIAL_DESCRIPTION,
        by_event(sweep_trials.TRIAL_TRANSITIONS),
    )
    yield Machine("rollouts", "Rollout states", rollout_states.DESCRIPTION, by_event(rollout.TRANSITIONS))


def state_page(machine: Machine) -> str:
    sections = (
        f"## {state}\n\n{text}\n\n{ways_in(machine, state)}\n{ways_out(machine, state)}\n"
        for state, text in machine.descriptions.items()
    )
    return "\n".join((picture(machine), *sections))


def begins(machine: Machine) -> str:
    return machine.first or next(iter(machine.descriptions))


def arrows(machine: Machine) -> Iterator[tuple[str, str, str]]:
    """From state, event, to state; in the order of the states."""
    order = list(machine.descriptions)
    for state in order:
        for event, targets in machine.moves.get(state, []):
            for target in sorted(set(targets) - {state}, key=order.index):
                yield state, event, target


def picture(machine: Machine) -> str:
    labels: dict[tuple[str, str], list[str]] = {}
    for state, event, target in arrows(machine):
        labels.setdefault((state, target), []).append(event.strip("`"))
    lines = [
        f"    {state} --> {target}" + (f": {', '.join(sorted(events))}" if any(events) else "")
        for (state, target), events in labels.items()
    ]
    return "\n".join(["```mermaid", "stateDiagram-v2", f"    [*] --> {begins(machine)}", *lines, "```", ""])


def ways_in(machine: Machine, state: str) -> str:
    sources: dict[str, list[str]] = {}
    for one, event, to in arrows(machine):
        if to == state:
            sources.setdefault(event, []).append(f"[{one}](#{one})")
    lines = ["- It begins here."] if state == begins(machine) else []
    lines += [
        f"- From {', '.join(found)}{f' by {event}' if event else ''}" for event, found in sources.items()
    ]
    return "\n".join(lines) or "- Nothing leads into it."


def ways_out(machine: Machine, state: str) -> str:
    lines = []
    for event, targets in machine.moves.get(state, []):
        elsewhere = ", ".join(f"[{target}](#{target})" for target in sorted(set(targets) - {state}))
        if elsewhere:
            lines.append(f"- To {elsewhere}{f' by {event}' if event else ''}")
    return "\n".join(lines) or "- Nothing leads out of it."


def errors_page() -> str:
    return "\n".join(
        f"## {kind.code}\n\n**{kind.title}.** HTTP {kind.http}, gRPC {kind.grpc}.\n\n> {kind.sentence}\n"
        for kind in CATALOGUE.values()
    )


def end_reasons_page() -> str:
    budgets = {
        "script": "`max_restarts` of the spec",
        "infrastructure": "the budget for infrastructure",
        "": "no budget",
    }
    return "\n".join(
        f"## {reason}\n\n**{end.label}.** {'Retried' if end.retried else 'Not retried'}; counts against "
        f"{budgets[end.counts]}.\n\n{end.remedy or 'Nothing to do.'}\n"
        for reason, end in ENDS.items()
    )


def device_health_page() -> str:
    """A table of the rules of each kind of device, with the readings that a custom agent would send."""
    parts = []
    for title, of_node in (("GPUs", False), ("Nodes", True)):
        head = (
            "| code | reading | from | for | over after | severity | consequence | meaning and remedy |\n"
            "| --- | --- | --- | --- | --- | --- | --- | --- |"
        )
        rows = [device_health_row(rule) for rule in device_health.RULES if rule.of_node is of_node]
        parts.append("\n".join([f"## {title}\n", head, *rows, ""]))
    return "\n".join(parts)


def device_health_row(rule: device_health.Rule) -> str:
    lasts = "at once" if not rule.for_ms else format_duration_ms(rule.for_ms)
    returned = rule.consequence is device_health.Consequence.TAKE_OUT
    over = "an operator returns it" if returned else format_duration_ms(rule.clear_ms)
    sentence = rule.sentence.replace("{value}", "N")
    return (
        f"| `{rule.code}` | `{rule.reading}` | {rule.at_least:,.0f} | {lasts} | {over} | {rule.severity} "
        f"| {rule.consequence} | {sentence[:1].upper()}{sentence[1:]}. {rule.remedy} |"
    )


def alerts_page() -> str:
    """The measures, then a runbook for each built-in rule under its code."""
    head = "| measure | unit | of | meaning |\n| --- | --- | --- | --- |"
    measures = [
        f"| `{measure.name}` | {measure.unit} | {measure.kind} | {measure.words} |"
        for measure in MEASURES.values()
    ]
    parts = ["\n".join(["## Measures\n", head, *measures, ""]), "## Built-in rules\n"]
    for rule in builtin.RULES:
        explained = ", ".join(f"`{code}`" for code in rule.inhibited_by)
        meaning = rule.meaning.replace("{", "").replace("}", "")
        parts += [
            f"### {rule.code}\n",
            f"{rule.title}. {rule.severity.capitalize()}. `{text_of(rule.condition)}`\n",
            f"Meaning: {meaning}\n",
            f"What to do: {rule.remedy}\n",
            *([f"Nobody is told while one of these explains it: {explained}.\n"] if explained else []),
        ]
    return "\n".join(parts)


def cli_page(group: click.Command = command_line, name: str = "trainmaster") -> str:
    context = click.Context(group, info_name=name, max_content_width=100)
    if not isinstance(group, click.Group):
        return command_section(group, context, name)
    commands = ((child, group.get_command(context, child)) for child in sorted(group.list_commands(context)))
    sections = [
        cli_page(command, f"{name} {child}") for child, command in commands if command and not command.hidden
    ]
    # A group such as `nodes` that does something without a command.
    own = [command_section(group, context, name)] if group.invoke_without_command else []
    return "\n".join(own + sections)


def command_section(command: click.Command, context: click.Context, name: str) -> str:
    text = inspect.cleandoc(command.help or "").replace("\b\n", "")
    options = "\n".join(option_lines(command, context))
    return f"## {name}\n\n{text}\n\n```\n{command.get_usage(context)}\n```\n\n{options}\n"


def option_lines(command: click.Command, context: click.Context) -> Iterator[str]:
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record and record[0] != "--help":
            yield f"- `{record[0]}` {' '.join(record[1].split())}"


def fields_page(fields: Mapping[str, Field], groups: Iterable[StrEnum]) -> str:
    """A table of fields for each group, from the one description that the parser reads by."""
    tables = []
    for group in groups:
        rows = [field_row(name, field) for name, field in fields.items() if field.group == group]
        head = "| field | value | default | meaning |\n| --- | --- | --- | --- |"
        tables.append("\n".join([f"## {group}\n", head, *rows, ""]))
    return "\n".join(tables)


def field_row(name: str, field: Field) -> str:
    example = f" For example `{field.example}`." if field.example else ""
    meaning = f"{field.label}. {field.help}{example}"
    return f"| `{name}` | {value_words(field.kind.schema)} | {default_words(field)} | {meaning} |"


def default_words(field: Field) -> str:
    if field.kind.required:
        return "required"
    if field.like:
        return f"`{field.like}`"
    plain = field.plain_default
    return "none" if plain in (None, "", [], {}) else f"`{str(plain).lower() if plain is False else plain}`"


def value_words(schema: Mapping[str, Any]) -> str:
    if "oneOf" in schema:
        return " or ".join(value_words(option) for option in schema["oneOf"])
    if "enum" in schema:
        return ", ".join(f"`{option}`" for option in schema["enum"])
    words = {"array": "list of text", "object": "mapping", "string": "text", "boolean": "`true` or `false`"}
    kind = words.get(schema["type"], "whole number" if schema["type"] == "integer" else "number")
    if "minimum" in schema:
        least = "more than 0 and" if schema.get("exclusiveMinimum") else f"{schema['minimum']} to"
        return f"{kind}, {least} {'at most ' if least.endswith('and') else ''}{schema['maximum']}"
    most = [schema[key] for key in ("maxLength", "maxItems", "maxProperties") if key in schema]
    unit = "characters" if "maxLength" in schema else "entries"
    return f"{kind}, at most {most[0]} {unit}" if most else kind


def pages() -> dict[Path, str]:
    """Each page with what belongs below its marker."""
    return {
        **{DOCS / "states" / f"{machine.page}.md": state_page(machine) for machine in machines()},
        DOCS / "errors.md": errors_page(),
        DOCS / "end-reasons.md": end_reasons_page(),
        DOCS / "device-health.md": device_health_page(),
        DOCS / "alerts.md": alerts_page(),
        DOCS / "cli.md": cli_page(),
        DOCS / "job-file.md": fields_page(FIELDS, Group),
        DOCS / "sweep-file.md": fields_page(sweep_spec.FIELDS, sweep_spec.Section),
    }


def compose(path: Path, below: str) -> str:
    above = path.read_text().partition(MARKER)[0] if path.exists() else f"# {path.stem.capitalize()}\n\n"
    return f"{above}{MARKER}\n\n{below}"


def main() -> None:
    for path, below in pages().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(compose(path, below))


if __name__ == "__main__":
    main()
