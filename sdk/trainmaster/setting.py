"""Where a run reads from and writes to: in the work folder of its job, or in a folder of its own on a laptop."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trainmaster import laptop
from trainmaster.checkpoints import folder
from trainmaster.environment import JobEnvironment
from trainmaster.tracking.folder import EVENTS

# Under the platform the agent deletes what it has uploaded. This is only for when the agent is away for long.
SPARE_CHECKPOINTS = 10


@dataclass(frozen=True, slots=True)
class Setting:
    """`home` is None on ranks that keep nothing; `alone` is a run without the platform's agent."""

    home: Path | None
    checkpoints: Path | None
    candidates: tuple[Path, ...]
    spool: Path | None
    stop_file: Path | None
    keep_last: int
    alone: bool


def setting_of(environment: JobEnvironment, script: str, resume: str) -> Setting:
    """`resume` is for a laptop: under the platform the platform decides."""
    home = environment.folder
    if home is None:
        return _alone(environment, script, resume or environment.resume)
    keep = environment.keep_last
    checkpoints = home / environment.checkpoint_path
    return Setting(
        home=home,
        checkpoints=checkpoints,
        # Checkpoints of this attempt are newer than the one that it resumed from.
        candidates=(*folder.newest_first(checkpoints), *_fetched(environment.resume)),
        spool=home / "spool" / f"rank-{environment.rank}.jsonl",
        stop_file=home / "stop",
        keep_last=keep + SPARE_CHECKPOINTS if keep else 0,
        alone=False,
    )


def _fetched(resume: str) -> list[Path]:
    """What the agent has fetched to resume from: one checkpoint, or a folder of several."""
    if not resume:
        return []
    fetched = Path(resume)
    if (fetched / folder.DESCRIPTION).exists():
        return [fetched]
    return folder.newest_first(fetched) or [fetched]


def _alone(environment: JobEnvironment, script: str, resume: str) -> Setting:
    keep = environment.keep_last
    if environment.rank != 0:  # rank 0 keeps the run, and the others ask it
        return Setting(None, None, (), None, None, keep, alone=True)
    place = laptop.choose(Path(laptop.RUNS), script, resume)
    spool = place.folder / EVENTS
    return Setting(place.folder, place.checkpoints, place.candidates, spool, None, keep, alone=True)
