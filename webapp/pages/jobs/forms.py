"""The browser's form: flat fields of text, turned into the mapping that a job file has. Checking is the core's."""

import shlex
from collections.abc import Mapping
from typing import Any

from platform_core.jobs.spec import JobSpec, as_mapping
from platform_core.units import format_bytes

_WORDS = ("secrets", "tags", "tolerations", "excluded_nodes")
_PAIRS = ("hyperparameters", "environment", "node_labels")
_NUMBERS = (
    "num_gpus", "min_gpus", "priority", "cpus_per_gpu", "seed", "max_runtime_hours", "max_racks",
    "max_restarts",
)  # fmt: skip
_TEXTS = (
    "name", "team", "project", "experiment", "command", "code", "dataset", "purpose", "resume_from", "gpu_type",
    "strategy", "memory_per_gpu", "container_image",
)  # fmt: skip
_CHECKPOINT = ("interval_steps", "interval_minutes", "keep_last", "path")
# What a link to a clone may say differently, such as what would start it now.
CHANGEABLE = (
    "num_gpus", "min_gpus", "max_runtime_hours", "gpu_type", "strategy", "node_labels", "tolerations", "excluded_nodes",
    "max_racks",
)  # fmt: skip

DEFAULTS: dict[str, Any] = {
    "num_gpus": 1, "priority": 50, "strategy": "ddp", "max_runtime_hours": 2, "checkpoint_keep_last": 3,
    "checkpoint_interval_steps": "", "cpus_per_gpu": "", "memory_per_gpu": "", "seed": "", "min_gpus": "",
    "max_racks": "", "max_restarts": "", "preemptible": False,
}  # fmt: skip


def mapping_of(form: Mapping[str, str]) -> dict[str, Any]:
    """What was filled in, under the names of a job file; empty fields are left to their defaults."""
    mapping: dict[str, Any] = {name: form[name].strip() for name in _TEXTS if form.get(name, "").strip()}
    mapping |= {name: number(form[name]) for name in _NUMBERS if form.get(name, "").strip()}
    mapping |= {name: form[name].split() for name in _WORDS if form.get(name, "").strip()}
    mapping |= {name: pairs(form[name], name) for name in _PAIRS if form.get(name, "").strip()}
    checkpoint = {
        name: number(form[f"checkpoint_{name}"])
        for name in _CHECKPOINT
        if form.get(f"checkpoint_{name}", "").strip()
    }
    if checkpoint:
        mapping["checkpoint"] = checkpoint
    mapping["preemptible"] = form.get("preemptible", "") in {"true", "on", "1"}
    return mapping


def number(text: str) -> int | float | str:
    """A number if it is one; otherwise the text, which the core then refuses with its sentence."""
    for convert in (int, float):
        try:
            return convert(text.strip())
        except ValueError:
            continue
    return text.strip()


def pairs(text: str, field: str) -> dict[str, Any]:
    """`name=value` lines. Hyperparameters that look like numbers become numbers; the others stay text."""
    found: dict[str, Any] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, _, value = line.partition("=")
        found[name.strip()] = _scalar(value.strip()) if field == "hyperparameters" else value.strip()
    return found


def _scalar(text: str) -> Any:
    return {"true": True, "false": False}.get(text.lower(), number(text))


def values_of(spec: JobSpec) -> dict[str, Any]:
    """The other way: a spec as the form shows it, for cloning."""
    values: dict[str, Any] = as_mapping(spec)
    checkpoint: dict[str, Any] = values.pop("checkpoint")
    values |= {f"checkpoint_{name}": value or "" for name, value in checkpoint.items()}
    values["command"] = shlex.join(spec.command)
    for name in _WORDS:
        values[name] = " ".join(values[name])
    for name in _PAIRS:
        values[name] = "\n".join(f"{key}={_text(value)}" for key, value in values[name].items())
    if spec.memory_per_gpu_bytes:
        values["memory_per_gpu"] = format_bytes(spec.memory_per_gpu_bytes).replace(" ", "")
    values["seed"] = "" if spec.seed is None else spec.seed
    values["max_racks"] = spec.max_racks or ""
    return values


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
