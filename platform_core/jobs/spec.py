"""What a user asks for: one frozen value that is either sound or was never made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from platform_core.jobs import field_readers as fields
from platform_core.jobs.constraints import ANYWHERE, SPOT, Constraints, read_constraints
from platform_core.jobs.field_readers import Scalar
from platform_core.jobs.reader import Problem, Reader, SpecError, shown
from platform_core.units import GIB, HOUR_MS, MIB, MINUTE_MS, format_duration_ms

__all__ = [
    "CheckpointPolicy", "JobSpec", "Problem", "Scalar", "SpecError", "Strategy", "as_mapping", "parse",
]  # fmt: skip

MAX_GPUS = 10_000
MAX_HOURS = 720
MAX_STEPS = 10**9
MAX_RESTARTS, MOST_RESTARTS = 3, 100


class Strategy(StrEnum):
    DDP = "ddp"
    FSDP = "fsdp"
    DEEPSPEED = "deepspeed"
    HOROVOD = "horovod"
    CUSTOM = "custom"


MOST_URGENT, DEFAULT_PRIORITY, LEAST_URGENT = 0, 50, 100


@dataclass(frozen=True, slots=True)
class CheckpointPolicy:
    """How often the script is asked to save. 0 means "not by this measure"."""

    interval_steps: int = 0
    interval_ms: int = 0
    keep_last: int = 3
    path: str = "checkpoints"


@dataclass(frozen=True, slots=True)
class JobSpec:
    """Made by `parse`, which refuses bad values and combinations, all of them at once."""

    name: str
    team: str
    project: str
    command: tuple[str, ...]
    code: str  # manifest id, or '' when the command needs no files
    container_image: str
    environment: tuple[tuple[str, str], ...]  # ordered by name
    secrets: tuple[str, ...]
    num_gpus: int
    min_gpus: int
    gpu_type: str
    cpus_per_gpu: int
    memory_per_gpu_bytes: int
    priority: int  # 0 is the most urgent, 100 the least
    preemptible: bool
    max_runtime_ms: int  # of one attempt
    strategy: Strategy
    checkpoint: CheckpointPolicy
    resume_from: str
    dataset: str
    purpose: str
    hyperparameters: tuple[tuple[str, Scalar], ...]  # ordered by name
    tags: tuple[str, ...]
    seed: int | None
    experiment: str
    constraints: Constraints = ANYWHERE
    max_restarts: int = MAX_RESTARTS  # after failures of its script, without progress; 0: never restarted

    @property
    def placing(self) -> Constraints:
        """As the scheduler takes them: whoever may be preempted may go to spot nodes."""
        if not self.preemptible:
            return self.constraints
        tolerated = {*self.constraints.tolerations, SPOT}
        return self.constraints._replace(tolerations=tuple(sorted(tolerated)))


def parse(mapping: object) -> JobSpec:
    """The spec of a REST body, a YAML file or a form; SpecError with every problem when it is not sound."""
    if not isinstance(mapping, Mapping):
        raise SpecError((Problem("", f"a job description is a mapping of fields, not {shown(mapping)}"),))
    problems: list[Problem] = []
    read = Reader(mapping, problems)
    spec = _read_spec(read)
    read.refuse_the_rest()
    _check_combinations(read, spec)
    if problems:
        raise SpecError(tuple(problems))
    return spec


def restore(mapping: object) -> JobSpec:
    """The spec of a job that was accepted once. A field that this version would refuse has its fallback."""
    return _read_spec(Reader(mapping if isinstance(mapping, Mapping) else {}, []))


def as_mapping(spec: JobSpec) -> dict[str, object]:
    """The spec under its REST and YAML names; `parse` of it gives the same spec."""
    return {
        "name": spec.name,
        "team": spec.team,
        "project": spec.project,
        "command": list(spec.command),
        "code": spec.code,
        "container_image": spec.container_image,
        "environment": dict(spec.environment),
        "secrets": list(spec.secrets),
        "num_gpus": spec.num_gpus,
        "min_gpus": spec.min_gpus,
        "gpu_type": spec.gpu_type,
        "cpus_per_gpu": spec.cpus_per_gpu,
        "memory_per_gpu": _size(spec.memory_per_gpu_bytes),
        "priority": spec.priority,
        "preemptible": spec.preemptible,
        "max_runtime_hours": _in_units(spec.max_runtime_ms, HOUR_MS),
        "strategy": spec.strategy.value,
        "checkpoint": {
            "interval_steps": spec.checkpoint.interval_steps,
            "interval_minutes": _in_units(spec.checkpoint.interval_ms, MINUTE_MS),
            "keep_last": spec.checkpoint.keep_last,
            "path": spec.checkpoint.path,
        },
        "resume_from": spec.resume_from,
        "dataset": spec.dataset,
        "purpose": spec.purpose,
        "hyperparameters": dict(spec.hyperparameters),
        "tags": list(spec.tags),
        "seed": spec.seed,
        "experiment": spec.experiment,
        "node_labels": dict(spec.constraints.labels),
        "tolerations": list(spec.constraints.tolerations),
        "max_racks": spec.constraints.max_racks,
        "excluded_nodes": list(spec.constraints.excluded_nodes),
        "max_restarts": spec.max_restarts,
    }


def _read_spec(read: Reader) -> JobSpec:
    num_gpus = read.whole("num_gpus", 1, 1, MAX_GPUS)
    return JobSpec(
        name=read.text("name", fields.NAME),
        team=read.text("team", fields.TEAM),
        project=read.text("project", fields.PROJECT),
        command=fields.command(read),
        code=read.text("code", fields.CODE),
        container_image=read.text("container_image", fields.IMAGE),
        environment=fields.environment(read),
        secrets=fields.secrets(read),
        num_gpus=num_gpus,
        min_gpus=read.whole("min_gpus", num_gpus, 1, MAX_GPUS),
        gpu_type=read.text("gpu_type", fields.GPU_TYPE),
        cpus_per_gpu=read.whole("cpus_per_gpu", 1, 1, 256),
        memory_per_gpu_bytes=fields.memory(read),
        priority=read.whole("priority", DEFAULT_PRIORITY, MOST_URGENT, LEAST_URGENT),
        preemptible=read.truth("preemptible", False),
        max_runtime_ms=read.scaled("max_runtime_hours", 24 * HOUR_MS, HOUR_MS, MAX_HOURS, positive=True),
        strategy=_strategy(read),
        checkpoint=_checkpoint(read.nested("checkpoint")),
        resume_from=read.text("resume_from", fields.RESUME_FROM),
        dataset=read.text("dataset", fields.DATASET),
        purpose=read.text("purpose", fields.PURPOSE),
        hyperparameters=fields.hyperparameters(read),
        tags=fields.tags(read),
        seed=None if read.value("seed") is None else read.whole("seed", 0, 0, 2**63 - 1),
        experiment=read.text("experiment", fields.EXPERIMENT),
        constraints=read_constraints(read),
        max_restarts=read.whole("max_restarts", MAX_RESTARTS, 0, MOST_RESTARTS),
    )


def _strategy(read: Reader) -> Strategy:
    found = read.value("strategy")
    if found is None:
        return Strategy.DDP
    try:
        return Strategy(str(found))
    except ValueError:
        read.refuse("strategy", f"strategy is {shown(found)}; it must be one of {', '.join(Strategy)}")
        return Strategy.DDP


def _checkpoint(read: Reader) -> CheckpointPolicy:
    default = CheckpointPolicy()
    policy = CheckpointPolicy(
        interval_steps=read.whole("interval_steps", default.interval_steps, 0, MAX_STEPS),
        interval_ms=read.scaled(
            "interval_minutes", default.interval_ms, MINUTE_MS, MAX_HOURS * 60, positive=False
        ),
        keep_last=read.whole("keep_last", default.keep_last, 1, 1_000),
        path=fields.checkpoint_path(read, default.path),
    )
    read.refuse_the_rest()
    return policy


def _check_combinations(read: Reader, spec: JobSpec) -> None:
    """Rules over several fields; each keeps silent where one of its fields is refused already."""
    if read.sound("num_gpus", "min_gpus") and spec.min_gpus > spec.num_gpus:
        told = f"min_gpus is {spec.min_gpus}, more than num_gpus {spec.num_gpus}"
        read.refuse("min_gpus", f"{told}; lower min_gpus, or ask for {spec.min_gpus} GPUs")
    if read.sound("dataset", "purpose") and spec.dataset and not spec.purpose:
        told = f"purpose is missing although the dataset {shown(spec.dataset)} is given"
        read.refuse("purpose", f"{told}; say what it is used for, such as train or eval")
    for name in sorted(set(spec.secrets).intersection(name for name, _ in spec.environment)):
        told = f"{name} is both an environment name and a secret"
        read.refuse("environment", f"{told}; keep it as a secret and remove it from environment")
    interval = "checkpoint.interval_minutes"
    if read.sound(interval, "max_runtime_hours") and spec.checkpoint.interval_ms > spec.max_runtime_ms:
        limit = format_duration_ms(spec.max_runtime_ms)
        told = f"no checkpoint would be due within the {limit} that the job may run"
        read.refuse(interval, f"{told}; save more often, or raise max_runtime_hours")


def _size(count: int) -> str | int:
    for size, unit in ((GIB, "GiB"), (MIB, "MiB")):
        if count % size == 0:
            return f"{count // size}{unit}"
    return count


def _in_units(amount: int, unit: int) -> int | float:
    return amount // unit if amount % unit == 0 else amount / unit
