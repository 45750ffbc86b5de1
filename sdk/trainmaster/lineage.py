"""What a run was made with: versions of its packages, and the machine."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from platform_core.units import format_bytes

MOST_PACKAGES = 1_990  # the platform takes 2,000
_INSTALLED = re.compile(r"(?P<name>[A-Za-z0-9._]+)-(?P<version>[^-]+)(-py[^-]+)?\.(dist|egg)-info")
_DRIVER = re.compile(r"Kernel Module(?: for \S+)?\s+(?P<version>[\d.]+)")


def packages() -> dict[str, str]:
    """Name to version of Python, the NVIDIA driver and all installed packages. Imports and opens none of them."""
    versions = {"python": platform.python_version()}
    if driver := _driver():
        versions["nvidia-driver"] = driver
    for folder in sys.path:
        for installed in _installed(folder):
            # The first folder of the path wins, as it does for imports.
            versions.setdefault(installed["name"].replace("_", "-").lower(), installed["version"])
    return dict(sorted(versions.items())[:MOST_PACKAGES])


def _installed(folder: str) -> Iterator[re.Match[str]]:
    try:
        with os.scandir(folder or ".") as entries:
            names = sorted(entry.name for entry in entries)
    except OSError:
        return
    yield from filter(None, map(_INSTALLED.fullmatch, names))


def _driver() -> str:
    try:
        found = _DRIVER.search(Path("/proc/driver/nvidia/version").read_text(errors="replace"))
    except OSError:
        return ""
    return found["version"] if found else ""


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
