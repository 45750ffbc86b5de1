"""The environment variables of the SDK and the CLI. Nothing else in them reads the environment."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from platform_core.errors import TrainmasterError
from platform_core.loading.dropped import NONE, Dropped, from_text
from platform_core.registry import export_report
from platform_core.registry.exports import Target

Scalar = str | int | float | bool

DEFAULT_KEEP = 3
_SECRET = re.compile(r"(?i)TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|(?:^|_)KEY(?:_|$)|API_?KEY")


@dataclass(frozen=True, slots=True)
class JobEnvironment:
    """The variables of a training process. `folder` is set under the platform and None on a laptop."""

    folder: Path | None = None  # the attempt's work folder on the node
    attempt: str = ""
    job: str = ""
    resume: str = ""  # a checkpoint's folder; on a laptop also "auto"
    data: Path | None = None
    stream: Path | None = None  # where its files come while the job runs
    dropped: Dropped = NONE  # from the dataset, by people
    checkpoint_path: str = "checkpoints"  # relative to `folder`
    interval_steps: int = 0
    interval_seconds: int = 0
    keep_last: int = DEFAULT_KEEP
    when_busy: Literal["wait", "skip"] = "wait"  # what a save does while the last one is being written
    check_steps: int = 0  # between comparisons of the ranks
    tolerance_ppm: int = 0
    seed: int | None = None
    hyperparameters: Mapping[str, Scalar] = field(default_factory=dict)
    rank: int = 0
    local_rank: int = 0
    world_size: int = 1


@dataclass(frozen=True, slots=True)
class ClientEnvironment:
    """How the CLI and the SDK find the platform, and what they may show."""

    url: str
    token: str
    config_file: Path
    no_color: bool = False
    offline: bool = False  # runs outside the platform stay in their folders
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)  # variables that are named like one


def job_environment(variables: Mapping[str, str] = os.environ) -> JobEnvironment:
    """An invalid value is refused with a sentence, before any training."""
    folder, data = variables.get("TRAINMASTER_DIR", ""), variables.get("TRAINMASTER_DATA", "")
    seed, stream = variables.get("TRAINMASTER_SEED", ""), variables.get("TRAINMASTER_STREAM", "")
    return JobEnvironment(
        folder=Path(folder) if folder else None,
        attempt=variables.get("TRAINMASTER_ATTEMPT", ""),
        job=variables.get("TRAINMASTER_JOB", ""),
        resume=variables.get("TRAINMASTER_RESUME", ""),
        data=Path(data) if data else None,
        stream=Path(stream) if stream else None,
        dropped=from_text(variables.get("TRAINMASTER_DATA_DROPPED", "")),
        checkpoint_path=variables.get("TRAINMASTER_CHECKPOINT_PATH", "") or "checkpoints",
        interval_steps=_whole(variables, "TRAINMASTER_CHECKPOINT_INTERVAL_STEPS", 0),
        interval_seconds=_whole(variables, "TRAINMASTER_CHECKPOINT_INTERVAL_SECONDS", 0),
        keep_last=_whole(variables, "TRAINMASTER_CHECKPOINT_KEEP", DEFAULT_KEEP),
        when_busy="skip" if variables.get("TRAINMASTER_CHECKPOINT_WHEN_BUSY") == "skip" else "wait",
        check_steps=_whole(variables, "TRAINMASTER_CORRUPTION_CHECK_STEPS", 0),
        tolerance_ppm=_whole(variables, "TRAINMASTER_CORRUPTION_TOLERANCE_PPM", 0),
        seed=_whole(variables, "TRAINMASTER_SEED", 0) if seed else None,
        hyperparameters=_hyperparameters(variables.get("TRAINMASTER_HYPERPARAMETERS", "")),
        rank=_whole(variables, "RANK", 0),
        local_rank=_whole(variables, "LOCAL_RANK", 0),
        world_size=max(1, _whole(variables, "WORLD_SIZE", 1)),
    )


@dataclass(frozen=True, slots=True)
class GoogleEnvironment:
    """The HMAC key with which buckets of gs:// are asked, by their S3-compatible interface."""

    endpoint: str
    key: str
    secret: str = field(repr=False)


def google_environment(variables: Mapping[str, str] = os.environ) -> GoogleEnvironment:
    endpoint = variables.get("GS_ENDPOINT_URL", "") or "https://storage.googleapis.com"
    return GoogleEnvironment(
        endpoint, variables.get("GS_ACCESS_KEY_ID", ""), variables.get("GS_SECRET_ACCESS_KEY", "")
    )


def layout_environment(variables: Mapping[str, str] = os.environ) -> str:
    """The sizes of the layout as text, such as fsdp=2,tp=4."""
    return variables.get("TRAINMASTER_PARALLEL", "")


def serving_environment(variables: Mapping[str, str] = os.environ) -> Target | None:
    """The serving target of the job; None where it names none."""
    text = variables.get("TRAINMASTER_SERVING_CONSTRAINTS", "")
    if not text:
        return None
    try:
        fields = json.loads(text)
        return export_report.target(str(fields.pop("name")), fields)
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        why = f'it must be JSON such as {{"name": "edge", "max_latency_ms": 5}}, not {text[:80]!r}'
        raise TrainmasterError("request_invalid", what="TRAINMASTER_SERVING_CONSTRAINTS", why=why) from error


@dataclass(frozen=True, slots=True)
class RoleEnvironment:
    """What a process of a job with roles is told: the addresses of each role as JSON, and which of its own it is."""

    addresses: str
    index: int


def role_environment(variables: Mapping[str, str] = os.environ) -> RoleEnvironment:
    index = _whole(variables, "TRAINMASTER_ROLE_INDEX", 0)
    return RoleEnvironment(variables.get("TRAINMASTER_ROLES", ""), index)


@dataclass(frozen=True, slots=True)
class ReplicaEnvironment:
    """What a replica of an endpoint is told; on a laptop it serves this machine alone."""

    model: Path | None = None
    host: str = "127.0.0.1"
    port: int = 8080
    token: str = field(default="", repr=False)  # which the router shows
    gpu_share: float = 1.0  # of the memory of its GPU


def replica_environment(variables: Mapping[str, str] = os.environ) -> ReplicaEnvironment:
    model = variables.get("TRAINMASTER_MODEL", "")
    if not model:
        return ReplicaEnvironment()
    return ReplicaEnvironment(
        Path(model), "0.0.0.0", _whole(variables, "MASTER_PORT", 8080),  # noqa: S104 - the router is elsewhere
        variables.get("TRAINMASTER_REPLICA_TOKEN", ""),
        _fraction(variables, "TRAINMASTER_GPU_MEMORY_SHARE"),
    )  # fmt: skip


def _fraction(variables: Mapping[str, str], name: str) -> float:
    """1.0 where it is absent, or says nothing that can be."""
    try:
        value = float(variables.get(name, "1"))
    except ValueError:
        return 1.0
    return value if 0 < value <= 1 else 1.0


def launcher_environment(variables: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What the processes that a launcher starts inherit."""
    return dict(variables)


def replace_environment(variables: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(variables)


def client_environment(variables: Mapping[str, str] = os.environ) -> ClientEnvironment:
    base = variables.get("XDG_CONFIG_HOME", "")
    secrets = {name: value for name, value in variables.items() if _SECRET.search(name) and len(value) >= 6}
    return ClientEnvironment(
        url=variables.get("TRAINMASTER_URL", ""),
        token=variables.get("TRAINMASTER_TOKEN", ""),
        no_color=bool(variables.get("NO_COLOR")),  # no-color.org: any value but the empty one
        offline=bool(variables.get("TRAINMASTER_OFFLINE")),
        secrets=secrets,
        config_file=(Path(base) if base else Path.home() / ".config") / "trainmaster" / "config.toml",
    )


def _whole(variables: Mapping[str, str], name: str, default: int) -> int:
    text = variables.get(name, "").strip()
    if not text:
        return default
    try:
        value = int(text)
    except ValueError:
        value = -1
    if value < 0:
        raise TrainmasterError("request_invalid", what=name, why=f"{text!r} is not a whole number from 0")
    return value


def _hyperparameters(text: str) -> dict[str, Scalar]:
    try:
        values = json.loads(text or "{}")
    except ValueError as error:
        values = str(error)
    if not isinstance(values, dict):
        why = f'it must be a JSON object such as {{"lr": 0.001}}, not {text!r}'
        raise TrainmasterError("request_invalid", what="TRAINMASTER_HYPERPARAMETERS", why=why)
    return values
