"""Loading: rank 0 chooses and verifies; every rank takes its own verified copy, or rank 0's bytes."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainmaster.checkpoints import collective, folder, random_state
from trainmaster.checkpoints.saving import RANDOM, STATE


@dataclass(frozen=True, slots=True)
class Loaded:
    state: dict[str, Any]
    step: int
    path: Path
    random_restored: bool


@dataclass(frozen=True, slots=True)
class _Choice:
    path: Path
    description: folder.Description
    fingerprint: str


def load(candidates: Sequence[Path], warn: Callable[[str], None], go_back: bool) -> Loaded | None:
    """A collective. The first candidate that is whole; None when there are no candidates on rank 0.

    `go_back`: a corrupt one is set aside with a warning and the next is tried. Otherwise, and when none is left,
    CheckpointCorrupt is raised, on every rank.
    """
    choice: _Choice | None = None
    trouble = ""
    if collective.rank() == 0:
        try:
            choice = _first_whole(candidates, warn, go_back)
        except folder.CheckpointCorrupt as error:
            trouble = str(error)
    choice, trouble = collective.from_first((choice, trouble))
    if trouble:
        raise folder.CheckpointCorrupt(trouble)
    if choice is None:
        return None
    own = choice.path if collective.rank() == 0 else _own_copy(choice, candidates)
    same_world = choice.description.world_size == collective.world_size()
    if collective.everywhere(own is not None):
        assert own is not None
        state, generators = _read(own / STATE), _read(own / RANDOM) if same_world else None
    else:
        state, generators = _from_first(choice.path, same_world)
    if generators is not None:
        random_state.restore(generators[collective.rank()])
    return Loaded(state, choice.description.step, choice.path, random_restored=same_world)


def _first_whole(candidates: Sequence[Path], warn: Callable[[str], None], go_back: bool) -> _Choice | None:
    refused = ""
    for path in candidates:
        try:
            description = folder.verify(path)
        except folder.CheckpointCorrupt as error:
            refused = f"The checkpoint is refused: {error}."
            if not go_back:
                raise folder.CheckpointCorrupt(refused) from error
            warn(f"{refused} It is set aside as {folder.set_aside(path)}; an older one is tried.")
            continue
        return _Choice(path, description, folder.fingerprint(path))
    if refused:
        raise folder.CheckpointCorrupt(f"{refused} There is no older one; start without resuming.")
    return None


def _own_copy(choice: _Choice, candidates: Sequence[Path]) -> Path | None:
    """The same folder on the same machine; on another node the copy that was fetched there."""
    for path in (choice.path, *candidates):
        if folder.fingerprint(path) != choice.fingerprint:
            continue
        try:
            folder.verify(path)
        except folder.CheckpointCorrupt:
            continue
        return path
    return None


def _from_first(path: Path, with_generators: bool) -> tuple[Any, Any]:
    """Some rank has no copy: rank 0 sends its bytes to all."""
    first = collective.rank() == 0
    state = collective.from_first((path / STATE).read_bytes() if first else b"")
    generators = collective.from_first((path / RANDOM).read_bytes() if first and with_generators else b"")
    return _read(io.BytesIO(state)), _read(io.BytesIO(generators)) if generators else None


def _read(source: Path | io.BytesIO) -> Any:
    import torch

    # On the CPU first: load_state_dict moves each tensor to where its parameter is. Never code from a file.
    return torch.load(source, map_location="cpu", weights_only=True)
