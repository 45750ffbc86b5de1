"""For the script of an evaluation suite: the version to measure, its results, and the check of its weights.

from trainmaster import evaluation

model = load(evaluation.model_dir())
evaluation.validate()
evaluation.report(
    {"id": sample.id, "metrics": {"accuracy": right(model, sample)}, "slices": {"language": sample.language}}
    for sample in samples(trainmaster.data_dir())
)
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from platform_core.errors import TrainmasterError
from platform_core.registry import results
from trainmaster import api, weights
from trainmaster.environment import job_environment, replica_environment

RESULTS, VALIDATION = "evaluation-results.jsonl", "evaluation-validation.json"
_BLOCK = 8 << 20


def model_dir(default: str | Path = "model") -> Path:
    """The folder with the verified files of the version; on a laptop TRAINMASTER_MODEL, else `default`."""
    return replica_environment().model or Path(default)


def report(samples: Iterable[Mapping[str, Any]]) -> int:
    """Hands over the results, once: a mapping a sample with `id`, `metrics` and perhaps `slices`. Returns how many.

    Rank 0 alone counts. Raises TrainmasterError of request_invalid with the line that is none.
    """
    lines = [json.dumps(dict(sample)) for sample in samples]
    count = len(results.read(lines))
    _hand_over(RESULTS, "\n".join(lines) + "\n")
    return count


def validate(folder: str | Path | None = None) -> dict[str, Any]:
    """Hands over the digests of the version's files, and of each tensor its norm and how many values are not finite.

    The platform compares them with what was registered. Returns what it handed over.
    """
    place = Path(folder) if folder is not None else model_dir()
    files = sorted(path for path in place.rglob("*") if path.is_file())
    if not files:
        why = "it has no files; the platform puts them there for the job of an evaluation"
        raise TrainmasterError("request_invalid", what=f"the folder {place}", why=why)
    found = {
        "files": {path.relative_to(place).as_posix(): _digest(path) for path in files},
        "tensors": {
            f"{path.relative_to(place).as_posix()}: {name}": tensor
            for path in files
            for name, tensor in weights.measured(path).items()
        },
    }
    _hand_over(VALIDATION, json.dumps(found))
    return found


def _hand_over(name: str, text: str) -> None:
    if job_environment().rank:
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / name
        file.write_text(text)
        api.log_artifact(file)


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
