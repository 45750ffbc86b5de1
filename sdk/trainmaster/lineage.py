"""What a run was made with: versions of its packages, and the machine."""

from __future__ import annotations

import os
import platform
from collections import Counter
from importlib import metadata
from pathlib import Path

from platform_core.units import format_bytes

PACKAGES = (
    "torch", "numpy", "trainmaster", "torchvision", "torchaudio", "transformers", "datasets", "tokenizers",
    "accelerate", "deepspeed", "lightning", "triton", "flash-attn", "jax", "tensorflow", "scikit-learn", "pandas",
)  # fmt: skip


def packages() -> dict[str, str]:
    """Name to version of Python and of the packages that decide results. Imports none of them."""
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def hardware() -> str:
    """`Linux x86_64, 16 x AMD EPYC 9654, 128 GiB, 1 x NVIDIA H200`"""
    parts = [f"{platform.system()} {platform.machine()}", f"{os.cpu_count() or 1} x {_processor()}"]
    memory = _memory_bytes()
    if memory:
        parts.append(format_bytes(memory))
    parts += [f"{count} x {model}" for model, count in sorted(_gpus().items())]
    return ", ".join(parts)


def _processor() -> str:
    return _field(Path("/proc/cpuinfo"), "model name") or platform.processor() or "CPU"


def _memory_bytes() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 0


def _gpus() -> Counter[str]:
    """From the driver's own files: asking CUDA would create a context on a GPU."""
    files = Path("/proc/driver/nvidia/gpus").glob("*/information")
    return Counter(model for path in files if (model := _field(path, "Model")))


def _field(path: Path, name: str) -> str:
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return ""
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""
