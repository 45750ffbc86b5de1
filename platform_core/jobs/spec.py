"""What a user asks for: one frozen value that is either sound or was never made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from platform_core.cluster.gpu_shares import shares_of
from platform_core.jobs.checkpoint_policy import CheckpointPolicy
from platform_core.jobs.definition import JobSpec
from platform_core.jobs.field_readers import Scalar
from platform_core.jobs.fields import (
    Field,
    Group,
    given_fields,
    leaves,
    load_fields,
    plain_fields,
    read_fields,
    schema_of,
)
from platform_core.jobs.kind import JobKind
from platform_core.jobs.launching import Strategy
from platform_core.jobs.parallel import check as check_parallel
from platform_core.jobs.reader import Problem, Reader, SpecError, shown
from platform_core.jobs.roles import check as check_roles
from platform_core.jobs.transformer import check as check_transformer
from platform_core.jobs.urgency import DEFAULT_PRIORITY, LEAST_URGENT, MOST_URGENT, PRIORITIES
from platform_core.units import format_duration_ms

__all__ = [
    "DEFAULT_PRIORITY", "FIELDS", "LEAST_URGENT", "MOST_URGENT", "PRIORITIES", "SCHEMA", "CheckpointPolicy",
    "Group", "JobSpec", "Problem", "Scalar", "SpecError", "Strategy", "as_mapping", "given", "load", "parse", "restore",
]  # fmt: skip

FIELDS: Mapping[str, Field] = {field.name: field for field in leaves(JobSpec)}
SCHEMA = schema_of(JobSpec)


def parse(mapping: object, labels: Mapping[str, str] | None = None) -> JobSpec:
    """The spec of a REST body, a YAML file or a form; SpecError with every problem when it is not sound.

    Sentences call the fields by their names, or by these labels.
    """
    if not isinstance(mapping, Mapping):
        raise SpecError((Problem("", f"a job description is a mapping of fields, not {shown(mapping)}"),))
    problems: list[Problem] = []
    reader = Reader(mapping, problems, labels)
    spec: JobSpec = read_fields(JobSpec, reader)
    reader.refuse_the_rest()
    if spec.roles and reader.value("strategy") is None:
        spec = replace(spec, strategy=Strategy.ROLES)
    _check_combinations(reader, spec)
    if problems:
        raise SpecError(tuple(problems))
    return spec


def load(mapping: Mapping[str, Any]) -> JobSpec:
    """The spec that `as_mapping` wrote, not checked again. Raises KeyError, TypeError or ValueError if unreadable."""
    spec: JobSpec = load_fields(JobSpec, mapping)
    return spec


def restore(mapping: Mapping[str, Any]) -> JobSpec:
    """The spec of a job that was accepted once. A field that this version cannot read has its default."""
    try:
        return load(mapping)
    except (KeyError, TypeError, ValueError):
        spec: JobSpec = read_fields(JobSpec, Reader(mapping if isinstance(mapping, Mapping) else {}, []))
        return spec


def as_mapping(spec: JobSpec) -> dict[str, Any]:
    """The spec under its REST and YAML names; `parse` of it gives the same spec."""
    return plain_fields(spec)


def given(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that say more than their defaults, in the order of a job file; code of a commit is said by that."""
    fields = given_fields(JobSpec, mapping)
    if fields.get("git"):
        fields.pop("code", None)
    return fields


def _check_combinations(read: Reader, spec: JobSpec) -> None:
    """Rules over several fields; each keeps silent where one of its fields is refused already."""
    label = read.label
    if read.sound("num_gpus", "min_gpus") and spec.min_gpus > spec.num_gpus:
        more = f"is {spec.min_gpus}, more than {label('num_gpus')} {spec.num_gpus}"
        read.say("min_gpus", f"{more}; lower {label('min_gpus')}, or ask for {spec.min_gpus} GPUs")
    shares = shares_of(spec.gpu_type)
    if read.sound("num_gpus", "gpu_type") and shares > 1:
        if spec.num_gpus > 1:
            read.say(
                "num_gpus",
                f"is {spec.num_gpus}, but a slot of {spec.gpu_type} is a share of a GPU; ask for one",
            )
        elif spec.kind is not JobKind.SERVICE:
            why = "whose memory only replicas of endpoints keep to; choose a type of whole GPUs"
            read.say("gpu_type", f"is {spec.gpu_type}, a share of a GPU, {why}")
    check_roles(read, spec.num_gpus, spec.min_gpus, spec.roles, spec.strategy is Strategy.ROLES)
    check_parallel(read, spec.num_gpus, spec.min_gpus, spec.parallel, bool(spec.roles))
    check_transformer(read, spec.num_gpus, spec.parallel, spec.transformer)
    if read.sound("dataset", "purpose") and spec.dataset and not spec.purpose:
        missing = f"is missing although the dataset {shown(spec.dataset)} is given"
        read.say("purpose", f"{missing}; say what it is used for, such as train or eval")
    if read.sound("dataset", "mount_dataset") and spec.mount_dataset and not spec.dataset:
        read.say(
            "mount_dataset", f"is set although no {label('dataset')} is given; name one, or leave it out"
        )
    if read.sound("dataset", "stream_dataset") and spec.stream_dataset and not spec.dataset:
        read.say(
            "stream_dataset", f"is set although no {label('dataset')} is given; name one, or leave it out"
        )
    if read.sound("mount_dataset", "stream_dataset") and spec.stream_dataset and spec.mount_dataset:
        both = f"is set beside {label('mount_dataset')}"
        read.say("stream_dataset", f"{both}; files that are read where they lie do not come, so keep one")
    for name in sorted(set(spec.secrets).intersection(name for name, _ in spec.environment)):
        twice = f"{name} is both an environment name and a secret"
        read.refuse("environment", f"{twice}; keep it as a secret and remove it from {label('environment')}")
    if read.sound("code", "git.url") and spec.code and spec.git.url:
        both = f"is given beside the code bundle {shown(spec.code)}"
        read.refuse("git", f"{label('git.url')} {both}; keep one of the two")
    interval = "checkpoint.interval_minutes"
    if read.sound(interval, "max_runtime_hours") and spec.checkpoint.interval_ms > spec.max_runtime_ms:
        limit = format_duration_ms(spec.max_runtime_ms)
        never = f"no checkpoint would be due within the {limit} that the job may run"
        read.refuse(interval, f"{never}; save more often, or raise {label('max_runtime_hours')}")
