"""CPU and memory limits of an attempt: a cgroup v2 where one can be made, else the shim watches memory."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from platform_core.units import format_bytes

CGROUP_ROOT = Path("/sys/fs/cgroup")
GROUP = "trainmaster"
_PERIOD_US = 100_000


@dataclass(frozen=True, slots=True)
class Limits:
    cgroup: str = ""  # the command runs in it
    shim_cgroup: str = ""  # the shim moves here, out of the agent's own, which may be killed as a whole
    watch_memory_bytes: int = 0  # the shim holds this limit itself
    sentence: str = "no limits on CPU or memory"


def apply(name: str, memory_bytes: int, cpus: int, root: Path = CGROUP_ROOT) -> Limits:
    """Prepares what the system allows and says what that is."""
    try:
        return _cgroup(name, memory_bytes, cpus, root)
    except OSError as error:
        return _watch(memory_bytes, cpus, f"no cgroup v2 here: {error.strerror or error}")


def kill(name: str) -> None:
    """SIGKILL to all that is left in its cgroup, if it has one."""
    with contextlib.suppress(OSError):
        (CGROUP_ROOT / GROUP / name / "cgroup.kill").write_text("1")


def release(cgroup: str) -> None:
    if cgroup:
        with contextlib.suppress(OSError):
            Path(cgroup).rmdir()


def _cgroup(name: str, memory_bytes: int, cpus: int, root: Path) -> Limits:
    controllers = (root / "cgroup.controllers").read_text().split()
    if "memory" not in controllers:
        raise OSError(0, "the memory controller is not in cgroup v2")
    parent = root / GROUP
    parent.mkdir(exist_ok=True)
    wanted = " ".join(f"+{name}" for name in ("memory", "cpu") if name in controllers)
    for folder in (root, parent):
        (folder / "cgroup.subtree_control").write_text(wanted)
    shims, own = parent / "shims", parent / name
    shims.mkdir(exist_ok=True)
    own.mkdir(exist_ok=True)
    applied: list[str] = []
    if memory_bytes:
        (own / "memory.max").write_text(str(memory_bytes))
        (own / "memory.oom.group").write_text("1")  # half a gang is worth nothing
        applied.append(f"memory {format_bytes(memory_bytes)}")
    if cpus and "cpu" in controllers:
        (own / "cpu.max").write_text(f"{cpus * _PERIOD_US} {_PERIOD_US}")
        applied.append(f"{cpus} CPUs")
    sentence = f"{' and '.join(applied) or 'no limits'}, held by cgroup {own}"
    return Limits(cgroup=str(own), shim_cgroup=str(shims), sentence=sentence)


def _watch(memory_bytes: int, cpus: int, why: str) -> Limits:
    threads = f"{cpus} CPUs by thread count only" if cpus else "no CPU limit"
    if not memory_bytes:
        return Limits(sentence=f"no memory limit, {threads} ({why})")
    return Limits(
        watch_memory_bytes=memory_bytes,
        sentence=f"memory {format_bytes(memory_bytes)} held by watching it, {threads} ({why})",
    )
