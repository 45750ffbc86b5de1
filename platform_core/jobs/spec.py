"""What a user asks for: one frozen value that is either sound or was never made."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

Scalar = str | int | float | bool


class Strategy(StrEnum):
    DDP = "ddp"
    FSDP = "fsdp"
    DEEPSPEED = "deepspeed"
    HOROVOD = "horovod"
    CUSTOM = "custom"


@dataclass(frozen=True, slots=True)
class CheckpointPolicy:
    """How often the script is asked to save. 0 means "not by this measure"."""

    interval_steps: int = 0
    interval_ms: int = 0
    keep_last: int = 3
    path: str = "checkpoints"


@dataclass(frozen=True, slots=True)
class JobSpec:
    """Made by `specification.parse`, which refuses bad combinations with all their problems at once."""

    name: str
    team: str
    project: str
    command: tuple[str, ...]
    code: str  # manifest id, or '' when the command needs no files
    container_image: str
    environment: tuple[tuple[str, str], ...]
    secrets: tuple[str, ...]
    num_gpus: int
    min_gpus: int
    gpu_type: str
    cpus_per_gpu: int
    memory_per_gpu_bytes: int
    priority: int  # 0 is the most urgent, 100 the least
    preemptible: bool
    max_runtime_ms: int
    strategy: Strategy
    checkpoint: CheckpointPolicy
    resume_from: str
    dataset: str
    purpose: str
    hyperparameters: tuple[tuple[str, Scalar], ...]
    tags: tuple[str, ...]
    seed: int | None
    experiment: str
