"""The health readings of this node, taken beside the heartbeat: a driver or a disk that hangs must not hold that up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any

from agent.probes.gpu_health import GpuHealth
from agent.probes.host_health import HostHealth
from agent.probes.profiling import DcgmExporter
from platform_core.node.description import Telemetry

log = logging.getLogger(__name__)

GPUS_EVERY_SECONDS, DISKS_EVERY_SECONDS = 5.0, 30.0


class Devices:
    """Lives on the event loop; each probe has a thread of its own while it reads."""

    def __init__(
        self,
        gpus: GpuHealth | None,
        host: HostHealth | None,
        exporter: DcgmExporter | None = None,
        gpu_of: Callable[[int], int] = int,
    ) -> None:
        """`gpu_of`: the GPU of a slot."""
        self._gpus, self._host, self._exporter, self._gpu_of = gpus, host, exporter, gpu_of
        self._of_gpus: Mapping[int, Mapping[str, float]] = {}
        self._of_host: Mapping[str, float] = {}
        self.clock_offset_ms = 0.0  # of the platform's clock
        self.uploads_waiting_ms: Callable[[], float] = lambda: 0.0

    def added_to(self, sample: Telemetry) -> Telemetry:
        waiting = self._host.waiting_ms() if self._host is not None else 0.0
        values = {**self._of_host, "clock_offset_ms": abs(round(self.clock_offset_ms))}
        values["uploads_waiting_ms"] = round(self.uploads_waiting_ms())
        values["disk_write_ms"] = max(waiting, values.get("disk_write_ms", 0.0))
        slots = tuple(
            replace(slot, readings={**slot.readings, **self._of_gpus.get(self._gpu_of(slot.index), {})})
            for slot in sample.slots
        )
        return replace(
            sample, slots=slots, readings={name: float(value) for name, value in values.items() if value}
        )

    def duties(self) -> list[Coroutine[None, None, None]]:
        """What is read for ever."""
        duties = []
        if self._gpus is not None:
            duties.append(_repeat(self._gpus.read, GPUS_EVERY_SECONDS, self._keep_gpus))
        if self._host is not None:
            duties.append(_repeat(self._host.read, DISKS_EVERY_SECONDS, self._keep_host))
        if self._exporter is not None:
            duties.append(_repeat(self._exporter.fetch, GPUS_EVERY_SECONDS, lambda _: None))
        return duties

    def _keep_gpus(self, readings: Mapping[int, Mapping[str, float]]) -> None:
        self._of_gpus = readings

    def _keep_host(self, readings: Mapping[str, float]) -> None:
        self._of_host = readings


async def _repeat(read: Callable[[], Any], every_seconds: float, keep: Callable[[Any], None]) -> None:
    while True:
        try:
            keep(await asyncio.to_thread(read))
        except Exception:
            log.exception("the health of devices could not be read")
        await asyncio.sleep(every_seconds)
