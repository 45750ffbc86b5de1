"""Files that a run hands over: copied into its folder, so that what the script does to them later does not matter."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

FOLDER = "artifacts"


def keep(source: Path, run_folder: Path) -> Path:
    """Copy it under the same name, replacing an earlier copy. Returns the copy."""
    parent = run_folder / FOLDER
    name = re.sub(r"[^A-Za-z0-9._-]", "_", source.resolve().name)
    copy, temporary = parent / name, parent / f".copying-{name}"
    parent.mkdir(parents=True, exist_ok=True)
    _remove(temporary)
    if source.is_dir():
        shutil.copytree(source, temporary)
    else:
        shutil.copyfile(source, temporary)
    _remove(copy)
    temporary.rename(copy)
    return copy


def keep_text(text: str, name: str, run_folder: Path) -> Path:
    """Keep a text as an artifact of this name."""
    return run_folder / keep_bytes(text.encode(errors="replace"), f"{FOLDER}/{name}", run_folder)


def keep_bytes(data: bytes, path: str, run_folder: Path) -> str:
    """Write them at this path of the run's folder, as a whole. Returns the path."""
    file = run_folder / path
    temporary = file.with_name(f".writing-{file.name}")
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary.write_bytes(data)
    temporary.rename(file)
    return path


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
