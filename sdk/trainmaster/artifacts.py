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


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
