"""The folder of a run without a platform: ./trainmaster-runs/<script>-<number>/."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from platform_core.errors import TrainmasterError
from trainmaster.checkpoints.folder import DESCRIPTION, newest_first

RUNS = "trainmaster-runs"
AUTO = "auto"
LONGEST_NAME = 100  # of a folder, before its number


@dataclass(frozen=True, slots=True)
class Place:
    """`candidates` are the checkpoints to resume from, best first; none for a fresh run."""

    folder: Path
    candidates: tuple[Path, ...] = ()

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"


def choose(runs: Path, script: str, resume: str) -> Place:
    """`resume`: "" starts a new run, "auto" continues the newest run that has a checkpoint, else a path."""
    # "-" is Python reading its program from standard input.
    base = re.sub(r"[^A-Za-z0-9._-]", "-", script[:LONGEST_NAME]).strip("-.") or "run"
    if resume == AUTO:
        for _, run in sorted(_numbered(runs, base), reverse=True):
            if checkpoints := newest_first(run / "checkpoints"):
                return Place(run, tuple(checkpoints))
        return Place(_fresh(runs, base))
    if resume:
        return Place(_fresh(runs, base), _named(Path(resume)))
    return Place(_fresh(runs, base))


def _named(path: Path) -> tuple[Path, ...]:
    """The path of a checkpoint, of a folder with checkpoints, or of a run."""
    if (path / DESCRIPTION).is_file():
        return (path,)
    checkpoints = newest_first(path / "checkpoints") or newest_first(path)
    if not checkpoints:
        why = f'there is no checkpoint in {path}; give the folder of a checkpoint or of a run, or "{AUTO}"'
        raise TrainmasterError("request_invalid", what="resume", why=why)
    return tuple(checkpoints)


def _fresh(runs: Path, base: str) -> Path:
    """Claims the next number; several runs may begin at the same moment."""
    while True:
        number = max((number for number, _ in _numbered(runs, base)), default=0) + 1
        folder = runs / f"{base}-{number}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        return folder


def _numbered(runs: Path, base: str) -> list[tuple[int, Path]]:
    pattern = re.compile(re.escape(base) + r"-(\d{1,9})")
    names = ((pattern.fullmatch(path.name), path) for path in (runs.iterdir() if runs.is_dir() else ()))
    return [(int(match[1]), path) for match, path in names if match]
