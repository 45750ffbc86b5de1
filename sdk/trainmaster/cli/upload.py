"""Files on their way to the platform, with a bar on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click

from platform_core.units import format_bytes, plural
from trainmaster import bundle
from trainmaster.client import Client
from trainmaster.uploads import Earlier

SHOWN_PATHS = 20  # more are counted


def name_left_out(left: Sequence[str], others: str) -> None:
    """`others`: what is not sent beside links and names that no file of the platform may have."""
    if left:
        more = f" and {len(left) - SHOWN_PATHS:,} more" if len(left) > SHOWN_PATHS else ""
        why = f"links that lead out of the folder or to a folder, {others}, and names that are not UTF-8 or have "
        why += "a control character, a backslash or the beginning of a drive (c:), are not sent"
        click.echo(f"Left out: {', '.join(map(bundle.shown, left[:SHOWN_PATHS]))}{more}; {why}.", err=True)


def upload(
    client: Client, kind: str, team: str, name: str, files: Sequence[tuple[str, Path]], what: str,
    earlier: Earlier | None = None,
) -> str:  # fmt: skip
    """The id of the manifest. `what` completes "Sending 3 files …"; `earlier` has files that need not be sent again."""
    size = sum(path.stat().st_size for _, path in files)
    click.echo(f"Sending {plural(len(files), 'file')}{what}, {format_bytes(size)}", err=True)
    send = partial(client.upload_again, kind, team, name, files, resume=kind != "code", earlier=earlier)
    if sys.stderr.isatty():
        with click.progressbar(length=max(1, size), file=sys.stderr, show_pos=False) as bar:
            done = send(bar.update)
    else:
        done = send()
    if done.kept:
        kept = f"{plural(done.kept, 'file')}, {format_bytes(done.kept_bytes)}"
        click.echo(f"Already there and not sent again: {kept}", err=True)
    return done.manifest
