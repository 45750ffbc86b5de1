"""Job files: YAML with the fields of a job, changed by --set."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import yaml

from trainmaster.cli.commands import Failure


class _Loader(yaml.SafeLoader):
    """Reads 1e-3 as a number; YAML 1.1, which PyYAML follows, reads it as text.

    Refuses aliases: a few lines of them expand to more values than fit into memory.
    """

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.YAMLError(f"line {mark.line + 1} has an alias (*name); write the value itself")
        return super().compose_node(parent, index)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+$"),
    list("-+0123456789."),
)


def read(path: Path) -> dict[str, Any]:
    try:
        fields = _parse(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"{path} cannot be read: {error}.") from error
    except (yaml.YAMLError, ValueError) as error:
        raise Failure(f"{path} is not YAML: {' '.join(str(error).split())}.") from error
    if not isinstance(fields, dict):
        raise Failure(f"{path} does not describe a job: it has no fields such as `name` and `command`.")
    return fields


def change(spec: dict[str, Any], settings: Iterable[str]) -> dict[str, Any]:
    """`key=value` replaces a field, `field.key=value` one inside hyperparameters, environment or checkpoint."""
    changed = dict(spec)
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or not key:
            raise click.UsageError(
                f"--set {setting}: write it as key=value, such as hyperparameters.lr=0.001"
            )
        try:
            value = _parse(text)
        except (yaml.YAMLError, ValueError) as error:
            raise click.UsageError(f"--set {setting}: the value is not YAML; put it in quotes") from error
        field, dot, inner = key.partition(".")
        if not dot:
            changed[field] = value
            continue
        old = changed.get(field) or {}
        if not isinstance(old, dict):
            raise click.UsageError(f"--set {setting}: {field} has no fields inside")
        changed[field] = {**old, inner: value}
    return changed


def _parse(text: str) -> Any:
    return yaml.load(text, Loader=_Loader)  # noqa: S506  (a SafeLoader)
