"""What a filter may name of a run, and how its value is compared."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class FieldKind(StrEnum):
    METRIC = "metrics"
    LOWEST = "lowest"
    HIGHEST = "highest"
    PARAMETER = "params"
    TAG = "tags"
    ATTRIBUTE = "attributes"
    DATASET = "datasets"


class ValueKind(StrEnum):
    NUMBER = "a number"
    TEXT = "text"
    TIME = "a time"  # milliseconds since 1970
    FLAG = "true or false"
    ANY = "text or a number"


@dataclass(frozen=True, slots=True)
class Field:
    """`name` is the key of a metric, parameter or tag, or the name of an attribute in `ATTRIBUTES`."""

    kind: FieldKind
    name: str

    def __str__(self) -> str:
        return self.name if self.kind is FieldKind.ATTRIBUTE else f"{self.kind}.{self.name}"

    @property
    def value_kind(self) -> ValueKind:
        if self.kind is FieldKind.ATTRIBUTE:
            return ATTRIBUTES[self.name].kind
        return _KINDS[self.kind]


@dataclass(frozen=True, slots=True)
class Attribute:
    kind: ValueKind
    words: str


ATTRIBUTES = {
    "name": Attribute(ValueKind.TEXT, "the run's name"),
    "run_id": Attribute(ValueKind.TEXT, "the run's id"),
    "state": Attribute(ValueKind.TEXT, "pending, running, succeeded, failed or cancelled"),
    "owner": Attribute(ValueKind.TEXT, "username of the person who made the run"),
    "user": Attribute(ValueKind.TEXT, "the user that the client named, else the owner"),
    "group": Attribute(ValueKind.TEXT, "the group of the run"),
    "parent": Attribute(ValueKind.TEXT, "id of the parent run"),
    "source": Attribute(ValueKind.TEXT, "job, sdk, mlflow, tensorboard, wandb or api"),
    "artifact_uri": Attribute(ValueKind.TEXT, "where MLflow clients find the run's artifacts"),
    "start_time": Attribute(ValueKind.TIME, "when the run started"),
    "end_time": Attribute(ValueKind.TIME, "when the run ended"),
    "created": Attribute(ValueKind.TIME, "when the run was created"),
    "duration": Attribute(ValueKind.NUMBER, "seconds from start to end"),
    "archived": Attribute(ValueKind.FLAG, "whether the run is archived"),
    "gpu_type": Attribute(ValueKind.TEXT, "the GPU type that its job asked for"),
    "mfu": Attribute(ValueKind.NUMBER, "model FLOPs utilisation, 0 to 1"),
    "utilisation": Attribute(ValueKind.NUMBER, "how busy its slots were, 0 to 1"),
    "tokens_per_second": Attribute(ValueKind.NUMBER, "tokens a second of all ranks"),
    "step_seconds": Attribute(ValueKind.NUMBER, "seconds of a step of the slowest rank"),
    "data_wait": Attribute(ValueKind.NUMBER, "part of the time that waits for data, 0 to 1"),
    "memory_bytes": Attribute(ValueKind.NUMBER, "the most memory of any rank"),
    "gpu_hours": Attribute(ValueKind.NUMBER, "GPU-hours that its job has held"),
    "cost": Attribute(ValueKind.NUMBER, "dollars that its job has cost"),
}
ALIASES = {
    "status": "state",
    "id": "run_id",
    "run_name": "name",
    "run name": "name",
    "user_id": "user",
    "started": "start_time",
    "ended": "end_time",
    "created_ms": "created",
}
DATASET_FIELDS = ("name", "digest", "context")
PREFIXES = {
    "metric": FieldKind.METRIC,
    "metrics": FieldKind.METRIC,
    "lowest": FieldKind.LOWEST,
    "highest": FieldKind.HIGHEST,
    "param": FieldKind.PARAMETER,
    "params": FieldKind.PARAMETER,
    "parameter": FieldKind.PARAMETER,
    "parameters": FieldKind.PARAMETER,
    "tag": FieldKind.TAG,
    "tags": FieldKind.TAG,
    "attr": FieldKind.ATTRIBUTE,
    "attribute": FieldKind.ATTRIBUTE,
    "attributes": FieldKind.ATTRIBUTE,
    "run": FieldKind.ATTRIBUTE,
    "dataset": FieldKind.DATASET,
    "datasets": FieldKind.DATASET,
}
# Of a metric: its last value, and the least and the greatest of its finite values.
OF_METRIC = (FieldKind.METRIC, FieldKind.LOWEST, FieldKind.HIGHEST)
_KINDS = {
    FieldKind.METRIC: ValueKind.NUMBER,
    FieldKind.LOWEST: ValueKind.NUMBER,
    FieldKind.HIGHEST: ValueKind.NUMBER,
    FieldKind.PARAMETER: ValueKind.ANY,
    FieldKind.TAG: ValueKind.TEXT,
    FieldKind.DATASET: ValueKind.TEXT,
}

# MLflow's names of our states
STATES = {
    "pending": "pending",
    "running": "running",
    "succeeded": "succeeded",
    "failed": "failed",
    "cancelled": "cancelled",
    "scheduled": "pending",
    "finished": "succeeded",
    "killed": "cancelled",
}
