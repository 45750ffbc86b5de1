"""Readings of the health of GPUs, by the names in `platform_core.cluster.device_health`: what is 0 is left out."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)

HOUR_SECONDS = 3600.0
KERNEL_LOG = Path("/dev/kmsg")
_XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d{1,4})")
_MOST_EVENTS = 64  # of one look
_SW_THERMAL, _HW_THERMAL, _HW_SLOWDOWN, _POWER_BRAKE = 0x20, 0x40, 0x08, 0x80
_FIRST_LINK_ERROR, _LAST_LINK_ERROR, _MOST_LINKS = 0, 3, 18


class Window:
    """How much counters rose, and how often something happened, in the last hour."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._counts: dict[tuple[int, str], deque[tuple[float, float]]] = defaultdict(deque)
        self._events: dict[tuple[int, str], deque[float]] = defaultdict(deque)

    def rise(self, device: int, name: str, count: float) -> float:
        """A counter that is smaller than before began anew: the driver was loaded again."""
        counts, now = self._counts[device, name], self._clock()
        if counts and count < counts[-1][1]:
            counts.clear()
        if len(counts) < 2 or count != counts[-1][1] or now - counts[-1][0] > HOUR_SECONDS / 60:
            counts.append((now, count))
        while len(counts) > 1 and counts[1][0] <= now - HOUR_SECONDS:
            counts.popleft()
        return count - counts[0][1]

    def happened(self, device: int, name: str) -> None:
        self._events[device, name].append(self._clock())

    def events(self, device: int) -> dict[str, float]:
        """By name how often in the last hour."""
        since = self._clock() - HOUR_SECONDS
        counted = {}
        for (of_device, name), moments in self._events.items():
            while moments and moments[0] <= since:
                moments.popleft()
            if of_device == device and moments:
                counted[name] = float(len(moments))
        return counted


class GpuHealth:
    """Asks NVML; used by one thread at a time. A question that a GPU or a driver does not know is left out."""

    def __init__(
        self,
        library: Any,
        indices: Iterable[int],
        kernel_log: Path = KERNEL_LOG,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._nvml, self._indices = library, tuple(indices)
        self._window = Window(clock)
        self._by_bus: dict[str, int] = {}
        for index in self._indices:
            handle = self._ask("nvmlDeviceGetHandleByIndex", index)
            pci = None if handle is None else self._ask("nvmlDeviceGetPciInfo", handle)
            if pci is not None:
                self._by_bus[_bus(_text(pci.busId))] = index
        self._kernel = _open_at_end(kernel_log)
        self._events = self._listen() if self._kernel is None else None

    def read(self) -> dict[int, dict[str, float]]:
        """By index."""
        for index, number in [*self._from_kernel(), *self._from_nvml()]:
            self._window.happened(index, f"xid_{number}")
        return {index: self._read(index) for index in self._indices}

    def _read(self, index: int) -> dict[str, float]:
        values = self._window.events(index)
        handle = self._ask("nvmlDeviceGetHandleByIndex", index)
        if handle is None or self._ask("nvmlDeviceGetMemoryInfo", handle) is None:
            return {**values, "gpu_lost": 1.0}
        values |= self._memory_errors(index, handle) | self._throttling(handle) | self._remapping(handle)
        replays = self._ask("nvmlDeviceGetPcieReplayCounter", handle)
        if replays is not None:
            values["pcie_replays_hour"] = self._window.rise(index, "pcie", float(replays))
        values["nvlink_errors_hour"] = self._window.rise(index, "nvlink", self._link_errors(handle))
        return {name: value for name, value in values.items() if value}

    def _memory_errors(self, index: int, handle: Any) -> dict[str, float]:
        corrected, uncorrected, volatile, aggregate = 0, 1, 0, 1  # as NVML numbers them
        values = {}
        for kind, name in ((corrected, "ecc_corrected"), (uncorrected, "ecc_uncorrected")):
            count = self._ask("nvmlDeviceGetTotalEccErrors", handle, kind, volatile)
            if count is not None:
                values[f"{name}_hour"] = self._window.rise(index, name, float(count))
        lifetime = self._ask("nvmlDeviceGetTotalEccErrors", handle, uncorrected, aggregate)
        return values if lifetime is None else {**values, "ecc_uncorrected_lifetime": float(lifetime)}

    def _throttling(self, handle: Any) -> dict[str, float]:
        reasons = self._ask("nvmlDeviceGetCurrentClocksEventReasons", handle)
        if reasons is None:
            reasons = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle) or 0
        return {
            "throttle_thermal": float(bool(reasons & (_SW_THERMAL | _HW_THERMAL))),
            "throttle_hardware": float(bool(reasons & (_HW_SLOWDOWN | _POWER_BRAKE))),
        }

    def _remapping(self, handle: Any) -> dict[str, float]:
        rows = self._ask("nvmlDeviceGetRemappedRows", handle)
        if rows is None:
            return {}
        _, uncorrectable, pending, failed = rows
        return {
            "rows_remapped_uncorrectable": float(uncorrectable),
            "row_remap_pending": float(bool(pending)),
            "row_remap_failed": float(bool(failed)),
        }

    def _link_errors(self, handle: Any) -> float:
        total = 0.0
        for link in range(_MOST_LINKS):
            if self._ask("nvmlDeviceGetNvLinkState", handle, link) != 1:
                continue
            for counter in range(_FIRST_LINK_ERROR, _LAST_LINK_ERROR + 1):
                total += float(self._ask("nvmlDeviceGetNvLinkErrorCounter", handle, link, counter) or 0)
        return total

    def _listen(self) -> Any:
        """NVML's own events, where the kernel log may not be read."""
        events = self._ask("nvmlEventSetCreate")
        if events is None:
            return None
        for index in self._indices:
            handle = self._ask("nvmlDeviceGetHandleByIndex", index)
            if handle is not None:
                self._ask(
                    "nvmlDeviceRegisterEvents", handle, self._nvml.nvmlEventTypeXidCriticalError, events
                )
        return events

    def _from_nvml(self) -> Iterable[tuple[int, int]]:
        if self._events is None:
            return
        for _ in range(_MOST_EVENTS):
            event = self._ask("nvmlEventSetWait_v2", self._events, 0)
            if event is None:
                return
            index = self._ask("nvmlDeviceGetIndex", event.device)
            if index in self._indices:
                yield int(index), int(event.eventData)

    def _from_kernel(self) -> Iterable[tuple[int, int]]:
        if self._kernel is None:
            return
        for _ in range(_MOST_EVENTS * 64):
            try:
                record = os.read(self._kernel, 8192)
            except BrokenPipeError:  # records were overwritten before they were read
                continue
            except OSError:
                return
            if not record:
                return
            for bus, number in _XID.findall(record.decode(errors="replace")):
                if (index := self._by_bus.get(_bus(bus))) is not None:
                    yield index, int(number)

    def _ask(self, question: str, *arguments: Any) -> Any:
        """None for what this GPU, this driver or this version of the library does not have."""
        function = getattr(self._nvml, question, None)
        if function is None:
            return None
        with contextlib.suppress(self._nvml.NVMLError):
            return function(*arguments)
        return None


def _open_at_end(path: Path) -> int | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.lseek(descriptor, 0, os.SEEK_END)
    except OSError as error:
        log.debug("XIDs do not come from %s: %s", path, error)
        return None
    return descriptor


def _bus(text: str) -> str:
    """ "00000000:3B:00.0" and "0000:3b:00" are the same device."""
    domain, _, rest = text.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest.partition('.')[0]}"


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
