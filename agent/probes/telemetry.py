"""How busy the node and each of its slots are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from agent.probes.gpus import Nvml
from agent.probes.process_use import ProcessMeter
from agent.probes.slots import Slots, usable_cpus
from platform_core.node.description import SlotTelemetry, Telemetry


@dataclass(frozen=True, slots=True)
class Occupant:
    """A running attempt, as far as telemetry cares."""

    slots: tuple[int, ...]
    pid: int


class Probe:
    """Keeps CPU times between two readings. Blocks a little; used by one thread at a time."""

    def __init__(self, slots: Slots, nvml: Nvml | None, data: Path) -> None:
        self._slots, self._nvml, self._data = slots, nvml, data
        self._meter = ProcessMeter()

    def read(self, occupants: Iterable[Occupant]) -> Telemetry:
        memory = psutil.virtual_memory()
        return Telemetry(
            disk_free_bytes=max(1, psutil.disk_usage(str(self._data)).free),  # 0 means that nobody has looked
            memory_used_bytes=memory.total - memory.available,
            slots=self._gpu_slots() if self._slots.are_gpus else self._cpu_slots(occupants),
        )

    def _gpu_slots(self) -> tuple[SlotTelemetry, ...]:
        assert self._nvml is not None
        return tuple(self._gpu_slot(self._nvml, slot.index) for slot in self._slots.slots)

    def _gpu_slot(self, nvml: Nvml, slot: int) -> SlotTelemetry:
        """NVML measures GPUs: how much of one's memory a share of it uses is not known."""
        read = nvml.read(self._slots.gpu_of(slot))
        if self._slots.shares == 1:
            return read
        return replace(read, index=slot, memory_used_bytes=None)

    def _cpu_slots(self, occupants: Iterable[Occupant]) -> tuple[SlotTelemetry, ...]:
        """A CPU slot stands for an equal share of the cores; an attempt's use is spread over its slots."""
        cores_per_slot = max(usable_cpus() / len(self._slots.slots), 1e-3)
        readings = {slot.index: SlotTelemetry(slot.index, 0.0, 0) for slot in self._slots.slots}
        slots = {occupant.pid: occupant.slots for occupant in occupants}
        for pid, uses in self._meter.read(slots).items():
            count = max(1, len(slots[pid]))
            cores = sum(use.cpu_cores for use in uses)
            utilisation = min(1.0, cores / (cores_per_slot * count))
            resident = sum(use.rss_bytes for use in uses)
            for index in slots[pid]:
                readings[index] = SlotTelemetry(index, utilisation, resident // count)
        return tuple(readings[slot.index] for slot in self._slots.slots)
