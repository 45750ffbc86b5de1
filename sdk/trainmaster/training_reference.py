"""A sample of the training data beside a model, with which the platform compares what the model is asked later."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from platform_core.drift.training import FILE, MOST_ROWS
from platform_core.errors import TrainmasterError


def save(folder: str | Path, inputs: Sequence[Any], outputs: Sequence[Any] | None, seed: int) -> Path:
    """At most MOST_ROWS rows, drawn without replacement. Raises request_invalid where the two do not pair."""
    if outputs is not None and len(outputs) != len(inputs):
        why = f"there are {len(inputs):,} inputs and {len(outputs):,} outputs; give one for each"
        raise TrainmasterError("request_invalid", what="the reference", why=why)
    path = Path(folder) / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in _lines(inputs, outputs, random.Random(seed))))
    return path


def _lines(inputs: Sequence[Any], outputs: Sequence[Any] | None, rng: random.Random) -> Iterator[str]:
    for place in sorted(rng.sample(range(len(inputs)), min(MOST_ROWS, len(inputs)))):
        document = {"inputs": [_plain(inputs[place])]}
        if outputs is not None:
            document["outputs"] = [_plain(outputs[place])]
        yield json.dumps(document)


def _plain(value: Any) -> Any:
    """Lists and numbers of an array or a tensor; what JSON knows stays."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value
