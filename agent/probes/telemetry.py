"""How busy the node and each of its slots are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic

import psutil

from agent.launchers import processes
from agent.probes.gpus import Nvml
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
        self._cpu_seconds: dict[tuple[int, float], float] = {}  # by process: pid and start
        self._read_at = monotonic()

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
        now = monotonic()
        elapsed, self._read_at = max(now - self._read_at, 1e-3), now
        cores_per_slot = max(usable_cpus() / len(self._slots.slots), 1e-3)
        readings = {slot.index: SlotTelemetry(slot.index, 0.0, 0) for slot in self._slots.slots}
        seen: dict[tuple[int, float], float] = {}
        for occupant in occupants:
            used, resident = self._use_of(occupant.pid, seen)
            count = max(1, len(occupant.slots))
            utilisation = min(1.0, used / elapsed / (cores_per_slot * count))
            for index in occupant.slots:
                readings[index] = SlotTelemetry(index, utilisation, resident // count)
        self._cpu_seconds = seen
        return tuple(readings[slot.index] for slot in self._slots.slots)

    def _use_of(self, pid: int, seen: dict[tuple[int, float], float]) -> tuple[float, int]:
        """CPU seconds of the process tree since the last reading, and its resident memory."""
        used, resident = 0.0, 0
        for process in processes.tree(pid):
            try:
                with process.oneshot():
                    times, key = process.cpu_times(), (process.pid, process.create_time())
                    resident += process.memory_info().rss
            except psutil.Error:
                continue
            seen[key] = times.user + times.system
            used += max(0.0, seen[key] - self._cpu_seconds.get(key, 0.0))
        return used, resident
