"""Saving: rank 0 writes the state, and the random state of every rank beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from trainmaster.checkpoints import collective, folder, random_state

STATE = "state.pt"
RANDOM = "random.pt"


class CheckpointNotSaved(Exception):
    """Rank 0 could not write it. Raised on every rank, so that none waits for the others."""


def save(
    state: Mapping[str, Any], description: folder.Description, parent: Path | None, keep_last: int
) -> Path | None:
    """A collective. The folder on rank 0, None on the others, whose `parent` does not matter."""
    generators = collective.to_first(random_state.capture())
    saved: Path | None = None
    trouble = ""
    if collective.rank() == 0:
        try:
            saved = _write(state, generators, description, parent)
            folder.prune(saved.parent, keep_last)
        except Exception as error:
            trouble = f"The checkpoint of step {description.step} was not saved: {error}"
    trouble = collective.from_first(trouble)  # also the barrier: no rank goes on before the bytes are safe
    if trouble:
        raise CheckpointNotSaved(trouble)
    return saved


def _write(
    state: Mapping[str, Any], generators: list[Any], description: folder.Description, parent: Path | None
) -> Path:
    import torch

    if parent is None:
        raise RuntimeError("this process has no folder for checkpoints")

    def put(value: object) -> folder.Writer:
        def write(file: BinaryIO) -> None:
            torch.save(value, file)

        return write

    return folder.write(parent, description, {STATE: put(dict(state)), RANDOM: put(generators)}, _refuse_code)


def _refuse_code(written: Path) -> None:
    """Refuse a state that needs code to load, at the first save and not when it is needed. Reads no tensor."""
    import torch

    unsafe = torch.serialization.get_unsafe_globals_in_checkpoint(written / STATE)
    if unsafe:
        raise TypeError(
            f"the state holds {', '.join(sorted(unsafe))}, which would run code when it is loaded; "
            "save state_dict()s, tensors, numbers, texts, lists and dicts"
        )
