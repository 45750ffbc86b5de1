"""The slots of this node: its GPUs, or CPU slots on a machine without."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

import psutil

from agent.probes.gpus import Nvml, slug

CPU_TYPE = "cpu"


@dataclass(frozen=True, slots=True)
class Slot:
    index: int
    name: str
    uuid: str  # of the GPU, empty for a CPU slot
    memory_bytes: int
    island: int = 0  # slots of an equal number are linked with each other


@dataclass(frozen=True, slots=True)
class Slots:
    gpu_type: str
    slots: tuple[Slot, ...]

    @property
    def gpu_uuids(self) -> dict[int, str]:
        return {slot.index: slot.uuid for slot in self.slots if slot.uuid}


def usable_cpus() -> int:
    """Those this process may run on, which in a container are fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def find_slots(nvml: Nvml | None, count: int, gpu_type: str, island_slots: int = 0) -> Slots:
    """`count` of CPU slots, or 0 for what the hardware has; `gpu_type` overrides the type's name.

    `island_slots` says how many neighbours each are linked, instead of what NVML says.
    """
    found = _find(nvml, count, gpu_type)
    if not island_slots:
        return found
    slots = tuple(replace(slot, island=1 + place // island_slots) for place, slot in enumerate(found.slots))
    return replace(found, slots=slots)


def _find(nvml: Nvml | None, count: int, gpu_type: str) -> Slots:
    gpus = nvml.gpus() if nvml is not None and count == 0 else ()
    if gpus:
        slots = tuple(Slot(gpu.index, gpu.name, gpu.uuid, gpu.memory_bytes, gpu.island) for gpu in gpus)
        return Slots(gpu_type or slug(gpus[0].name, gpus[0].memory_bytes), slots)
    count = count or usable_cpus()
    share = psutil.virtual_memory().total // count
    return Slots(gpu_type or CPU_TYPE, tuple(Slot(index, "CPU slot", "", share) for index in range(count)))
