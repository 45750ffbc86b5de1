"""What the data looked like that a version was trained on: the sample that comes with its files, as features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from platform_core.drift.features import features_of
from platform_core.drift.training import FILE, MOST_BYTES, MOST_ROWS
from platform_core.errors import TrainmasterError
from platform_core.json_values import storable
from webapp.base.identity import now_ms
from webapp.registry import queries as registry
from webapp.serving import hints
from webapp.serving.models import TrainingReference


def ask(sender: Any, version: Any, **kwargs: Any) -> None:
    """Reads its `reference.jsonl` in the background, where its files have one."""
    if registry.has_file(version, FILE):
        hints.read_training_reference(version.id)


def read(version_id: str) -> None:
    """Keeps the features of its rows, or why there are none. Safe to run again."""
    version = registry.version(version_id)
    if version is None:
        return
    kept: dict[str, Any] = {"at_ms": now_ms(), "problem": "", "rows": []}
    try:
        kept["rows"] = list(_features(registry.read_file(version, FILE, MOST_BYTES)))
    except TrainmasterError as error:
        kept["problem"] = error.sentence
    TrainingReference.objects.update_or_create(model_version_id=version_id, defaults=kept)


def rows_of(version_id: str) -> list[Mapping[str, Any]]:
    """Empty where it came without a sample."""
    row = TrainingReference.objects.filter(model_version=version_id).first()
    return [] if row is None else list(row.rows)


def problem_of(version_id: str) -> str:
    return (
        TrainingReference.objects.filter(model_version=version_id).values_list("problem", flat=True).first()
        or ""
    )


def _features(data: bytes) -> Iterator[dict[str, Any]]:
    """Of each line, a request and its answer. Raises request_invalid for one that is neither."""
    for number, line in enumerate(data.splitlines()[:MOST_ROWS], start=1):
        if not line.strip():
            continue
        found = storable(features_of(line, line))
        if not found:
            why = f'line {number} is no {{"inputs": [row], "outputs": [output]}}'
            raise TrainmasterError("request_invalid", what=FILE, why=why)
        yield found
