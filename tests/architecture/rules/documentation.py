"""What a person may meet has its heading: settings, states, error codes, commands, calls. And no heading is stale."""

import ast
import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

import click

from tests.architecture.rules.sources import Source

CONFIG_READERS = {"text", "secret", "integer", "flag", "words", "choice", "networks"}
AGENT_READERS = {"text", "secret", "number", "switch", "many", "path"}


def headings(document: Path) -> set[str]:
    """The headings of level two and deeper, without code marks: `## TRAINMASTER_DEBUG` or ``### `trainmaster up` ``."""
    if not document.exists():
        return set()
    found = re.findall(r"^###?#? +(.+?) *$", document.read_text(), re.MULTILINE)
    return {heading.replace("`", "").strip() for heading in found}


def missing(document: Path, names: set[str], kind: str) -> Iterator[str]:
    for name in sorted(names - headings(document)):
        yield f"docs/{document.name} has no heading for the {kind} {name}"


def stale(document: Path, names: set[str], kind: str, pattern: str) -> Iterator[str]:
    for heading in sorted(headings(document) - names):
        if re.fullmatch(pattern, heading):
            yield f"docs/{document.name} has a heading for the {kind} {heading}, which is no more"


def both(document: Path, names: set[str], kind: str, pattern: str = r"\S+") -> list[str]:
    return [*missing(document, names, kind), *stale(document, names, kind, pattern)]


def settings_of_the_platform(source: Source) -> set[str]:
    """The names that settings.py reads, and NAME_FILE for each secret."""
    names = set()
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            reader, name = ast.unparse(node.func), str(node.args[0].value)
            if reader in CONFIG_READERS or reader == "os.environ.get":
                names.add(name)
    return names


def settings_of_the_agent(source: Source) -> set[str]:
    return {
        f"TRAINMASTER_AGENT_{str(node.args[0].value).upper()}"
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and ast.unparse(node.func.value) == "source"
        and node.func.attr in AGENT_READERS
        and node.args
        and isinstance(node.args[0], ast.Constant)
    }


def settings_of_the_sdk(source: Source) -> set[str]:
    return {
        node.value
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.fullmatch(r"TRAINMASTER_[A-Z0-9_]*[A-Z0-9]", node.value)
    }


def states(enum: type[StrEnum]) -> set[str]:
    return {state.value for state in enum}


def commands(group: click.Command, prefix: str) -> Iterator[str]:
    """`trainmaster submit`, and those inside groups: `trainmaster tokens create`."""
    if not isinstance(group, click.Group):
        yield prefix
        return
    if group.invoke_without_command:  # such as `trainmaster nodes`, which lists them
        yield prefix
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is not None and not command.hidden:
            yield from commands(command, f"{prefix} {name}")


def unknown_commands(text: str, group: click.Group) -> list[str]:
    """What a text calls a command of `trainmaster`, in code, and is none."""
    found = re.findall(r"(?:`|^ *)(trainmaster ([a-z-]+)(?: ([a-z-]+)(?![\w./]))?)", text, re.MULTILINE)
    context = click.Context(group)
    unknown = []
    for written, name, inner in found:
        command = group.get_command(context, name)
        if command is None or (
            inner and isinstance(command, click.Group) and command.get_command(context, inner) is None
        ):
            unknown.append(written)
    return unknown


def calls_of(protos: Path) -> set[str]:
    """`AgentSession.Connect` for each call of each service."""
    return {
        f"{service}.{call}"
        for path in protos.rglob("*.proto")
        for service, body in re.findall(
            r"^service (\w+) \{(.*?)^\}", path.read_text(), re.MULTILINE | re.DOTALL
        )
        for call in re.findall(r"^\s*rpc (\w+)", body, re.MULTILINE)
    }
