"""The slots of this node: its GPUs, or CPU slots on a machine without."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

import psutil

from agent.probes.gpus import Gpus, Nvml, slug

CPU_TYPE = "cpu"
UNKNOWN_TYPE = "gpu-failed"


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
    faults: tuple[str, ...] = ()  # sentences

    @property
    def are_gpus(self) -> bool:
        return bool(self.gpu_uuids or self.faults)

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
    found = nvml.gpus() if nvml is not None and count == 0 else Gpus((), ())
    if found.gpus:
        slots = tuple(Slot(gpu.index, gpu.name, gpu.uuid, gpu.memory_bytes, gpu.island) for gpu in found.gpus)
        first = found.gpus[0]
        return Slots(gpu_type or slug(first.name, first.memory_bytes), slots, found.faults)
    if found.faults:
        # A machine of GPUs whose every GPU is lost has nothing to offer; its CPUs are not what jobs expect of it.
        return Slots(gpu_type or UNKNOWN_TYPE, (), found.faults)
    count = count or usable_cpus()
    share = psutil.virtual_memory().total // count
    return Slots(gpu_type or CPU_TYPE, tuple(Slot(index, "CPU slot", "", share) for index in range(count)))
