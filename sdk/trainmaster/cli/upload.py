"""Files on their way to the platform, with a bar on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from platform_core.units import format_bytes, plural
from trainmaster.client import Client


def upload(
    client: Client, kind: str, team: str, name: str, files: Sequence[tuple[str, Path]], what: str
) -> str:
    """The id of the manifest. `what` completes "Sending 3 files …"."""
    size = sum(path.stat().st_size for _, path in files)
    click.echo(f"Sending {plural(len(files), 'file')}{what}, {format_bytes(size)}", err=True)
    if not sys.stderr.isatty():
        return client.upload(kind, team, name, files)
    with click.progressbar(length=max(1, size), file=sys.stderr, show_pos=False) as bar:
        return client.upload(kind, team, name, files, bar.update)
