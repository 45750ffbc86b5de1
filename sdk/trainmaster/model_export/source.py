"""The trained module of a folder with weights, a file of weights, or a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from trainmaster.api import read_checkpoint
from trainmaster.checkpoints.folder import CheckpointCorrupt
from trainmaster.model_export import safetensors_file
from trainmaster.serving.runtimes.custom import LoadError, named

ENDINGS = (".pt", ".pth", ".safetensors")


def module_of(source: Path, entry: str, key: str) -> torch.nn.Module:
    """What `entry` makes, with the weights of `source`. Raises LoadError with a sentence."""
    module = named(source if source.is_dir() else source.parent, entry)()
    if not isinstance(module, torch.nn.Module):
        raise LoadError(f"{entry} makes a {type(module).__name__}; it has to make a torch.nn.Module.")
    weights = _weights(source, key)
    try:
        module.load_state_dict(weights)
    except (RuntimeError, TypeError) as error:
        first = " ".join(str(error).split())[:300]
        raise LoadError(f"The weights of {source} are not those of {entry}: {first}") from error
    return module.eval()


def _weights(source: Path, key: str) -> Mapping[str, Any]:
    files = [source] if source.is_file() else sorted(one for one in source.iterdir() if one.suffix in ENDINGS)
    if len(files) == 1 and files[0].suffix in ENDINGS:
        return _file(files[0], key)
    try:
        return _of_state(read_checkpoint(source), key, source)
    except (OSError, ValueError, CheckpointCorrupt) as error:
        if files:
            raise LoadError(f"{source} has {len(files)} files of weights; name one of them.") from error
        raise LoadError(
            f"{source} has neither weights ({', '.join(ENDINGS)}) nor a checkpoint: {error}"
        ) from error


def _file(path: Path, key: str) -> Mapping[str, Any]:
    if path.suffix == ".safetensors":
        return safetensors_file.read(path)
    state = torch.load(path, map_location="cpu", weights_only=True)
    is_weights = isinstance(state, Mapping) and all(
        isinstance(value, torch.Tensor) for value in state.values()
    )
    return state if is_weights else _of_state(state, key, path)


def _of_state(state: Any, key: str, source: Path) -> Mapping[str, Any]:
    if not isinstance(state, Mapping) or not isinstance(state.get(key), Mapping):
        keys = ", ".join(map(str, state)) if isinstance(state, Mapping) else type(state).__name__
        raise LoadError(
            f'The state in {source} has no weights "{key}"; it has {keys}. Name the key with --state.'
        )
    found: Mapping[str, Any] = state[key]
    return found
