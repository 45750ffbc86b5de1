"""The slots of this node: its GPUs, or CPU slots on a machine without."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

import psutil

from agent.probes.gpus import Gpus, Nvml, slug
from platform_core.cluster.gpu_shares import shared_type
from platform_core.node.description import SlotDescription

CPU_TYPE = "cpu"
UNKNOWN_TYPE = "gpu-failed"


@dataclass(frozen=True, slots=True)
class Slots:
    gpu_type: str
    slots: tuple[SlotDescription, ...]
    faults: tuple[str, ...] = ()  # sentences
    shares: int = 1  # slots of one GPU

    def gpu_of(self, slot: int) -> int:
        """The number by which NVML knows the GPU of a slot."""
        return slot // self.shares

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


def usable_memory() -> int:
    """Bytes of main memory for jobs: a sixteenth stays with the system and the agent."""
    return psutil.virtual_memory().total * 15 // 16


def find_slots(nvml: Nvml | None, count: int, gpu_type: str, island_slots: int = 0, shares: int = 1) -> Slots:
    """`count` of CPU slots, or 0 for what the hardware has; `gpu_type` overrides the type's name.

    `island_slots` neighbouring slots each are linked, whatever NVML says; 0 leaves it to NVML. Each GPU
    makes `shares` slots, for replicas that share it.
    """
    node = _shared(_find(nvml, count, gpu_type), shares)
    if not island_slots:
        return node
    slots = tuple(replace(slot, island=1 + place // island_slots) for place, slot in enumerate(node.slots))
    return replace(node, slots=slots)


def _shared(node: Slots, shares: int) -> Slots:
    """CPU slots are shares of a machine already."""
    if shares == 1 or not node.are_gpus:
        return node
    slots = tuple(
        replace(gpu, index=gpu.index * shares + place, memory_bytes=gpu.memory_bytes // shares)
        for gpu in node.slots
        for place in range(shares)
    )
    return Slots(shared_type(node.gpu_type, shares), slots, node.faults, shares)


def _find(nvml: Nvml | None, count: int, gpu_type: str) -> Slots:
    hardware = nvml.gpus() if nvml is not None and count == 0 else Gpus((), ())
    if hardware.gpus:
        first = hardware.gpus[0]
        return Slots(gpu_type or slug(first.name, first.memory_bytes), hardware.gpus, hardware.faults)
    if hardware.faults:
        # A machine of GPUs whose every GPU is lost has nothing to offer; its CPUs are not what jobs expect of it.
        return Slots(gpu_type or UNKNOWN_TYPE, (), hardware.faults)
    count = count or usable_cpus()
    share = psutil.virtual_memory().total // count
    slots = (SlotDescription(index, "CPU slot", memory_bytes=share) for index in range(count))
    return Slots(gpu_type or CPU_TYPE, tuple(slots))
