"""Where the complete files of a manifest are: in one folder for each name under which it is held.

    <folder>/homes.json        {"homes": ["models/vision/bytelm/3"]}, relative to the agent's folder

All of it is blocking and raises OSError.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from agent.files import read_json, write_atomically


def read(folder: Path, data: Path) -> list[Path]:
    """Those that are there."""
    document = read_json(folder / "homes.json") or {}
    return [data / home for home in document.get("homes", []) if (data / home).is_dir()]


def write(folder: Path, data: Path, homes: Iterable[Path]) -> None:
    document = {"homes": [str(home.relative_to(data)) for home in homes]}
    write_atomically(folder / "homes.json", json.dumps(document).encode(), durable=True)


def furnish(home: Path, files: Path) -> None:
    """The same files, as links where that is possible; whole or not at all."""
    unfinished = home.with_name(f".{home.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    home.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(files, unfinished, copy_function=_link)
    if home.exists():
        shutil.rmtree(home)
    os.replace(unfinished, home)


def remove(home: Path) -> None:
    """The model's folder goes with its last version."""
    if home.exists():
        shutil.rmtree(home)
    with suppress(OSError):
        home.parent.rmdir()
        home.parent.parent.rmdir()


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copy(source, target)  # with the right to run
