"""System series: what an attempt and its host use, sampled into a spool of the attempt.

The step of a sample is the second of its wall clock: it only grows, so that a later attempt of a job adds to the
series of the earlier ones and replaces nothing of them.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from agent.launchers import ranks
from agent.probes.gpus import Nvml
from agent.probes.process_use import ProcessMeter, ProcessUse
from agent.probes.slots import Slots, usable_cpus
from agent.work_folder import WorkFolder

log = logging.getLogger(__name__)

MOST_RANKS = 64  # of one node, in the series
_BLOCK = 512  # of st_blocks, whatever the file system


@dataclass(frozen=True, slots=True)
class Sampled:
    """A running attempt, as far as its system series care."""

    folder: WorkFolder
    slots: tuple[int, ...]
    pid: int
    node_rank: int
    nodes: int  # of the gang


@dataclass(slots=True)
class _Use:
    cpu_cores: float = 0.0
    rss_bytes: int = 0


class SystemSampler:
    """Keeps the counters of the last sample, for rates. Blocks a little; used by one thread at a time."""

    def __init__(self, slots: Slots, nvml: Nvml | None, data: Path, cap_bytes: int) -> None:
        """`cap_bytes`: of samples not sent yet that an attempt may keep on disk."""
        self._nvml = nvml if slots.are_gpus else None
        self._gpu_of = slots.gpu_of
        self._cores_per_slot = max(usable_cpus() / max(1, len(slots.slots)), 1e-3)
        self._data, self._cap_bytes = data, cap_bytes
        self._meter = ProcessMeter()
        self._ranks: dict[tuple[int, float], int | None] = {}
        self._counters: dict[str, int] = _counters()
        self._read_at = time.monotonic()
        self._cpu_times = psutil.cpu_times()

    def sample(self, attempts: Sequence[Sampled]) -> None:
        """Appends one line to the spool of each attempt."""
        now = time.monotonic()
        elapsed, self._read_at = max(now - self._read_at, 1e-3), now
        host = self._host(elapsed)
        trees = self._meter.read(attempt.pid for attempt in attempts)
        for attempt in attempts:
            uses = self._uses(attempt, trees[attempt.pid])
            values = host | self._slots(attempt, uses) | _of_ranks(uses)
            self._write(attempt, values)
        seen = {use.key for tree in trees.values() for use in tree}
        self._ranks = {process: rank for process, rank in self._ranks.items() if process in seen}

    def _write(self, attempt: Sampled, values: Mapping[str, float]) -> None:
        at_ms = time.time_ns() // 1_000_000
        prefix = "system/" if attempt.nodes == 1 else f"system/node{attempt.node_rank}/"
        named = {prefix + name: value for name, value in values.items()}
        line = json.dumps({"kind": "system", "at_ms": at_ms, "step": at_ms // 1000, "values": named})
        try:
            _append(attempt.folder.system_spool, line.encode() + b"\n", self._cap_bytes)
        except OSError as error:  # the attempt has been forgotten meanwhile, or the disk is full
            log.debug("no system sample of %s: %s", attempt.folder.attempt_id, error)

    def _host(self, elapsed: float) -> dict[str, float]:
        memory = psutil.virtual_memory()
        before, self._counters = self._counters, _counters()
        rates = {
            f"host/{name}_bytes_per_second": round(max(0, count - before.get(name, count)) / elapsed)
            for name, count in self._counters.items()
        }
        return {
            "host/cpu_utilisation": self._cpu_utilisation(),
            "host/memory_bytes": memory.total - memory.available,
            "host/disk_free_bytes": psutil.disk_usage(str(self._data)).free,
            **rates,
        }

    def _cpu_utilisation(self) -> float:
        """Of all cores since the last sample. `psutil.cpu_percent` would begin anew, with 0, in each thread."""
        before, self._cpu_times = self._cpu_times, psutil.cpu_times()
        spent = {
            name: max(0.0, now - getattr(before, name))
            for name, now in self._cpu_times._asdict().items()
            if name not in ("guest", "guest_nice")  # user and nice contain them
        }
        idle = spent.get("idle", 0.0) + spent.get("iowait", 0.0)
        total = sum(spent.values())
        return round(1 - idle / total, 4) if total else 0.0

    def _uses(self, attempt: Sampled, tree: Iterable[ProcessUse]) -> dict[int, _Use]:
        """What the processes of each rank use together, loaders of data included; without the launcher above them."""
        uses: dict[int | None, _Use] = defaultdict(_Use)
        by_leader = {leader.pid: rank for rank, leader in ranks.leaders(attempt.folder, attempt.pid).items()}
        for process in tree:
            if process.key not in self._ranks:
                self._ranks[process.key] = ranks.rank_of(process.process, by_leader)
            use = uses[self._ranks[process.key]]
            use.rss_bytes += process.rss_bytes
            use.cpu_cores += process.cpu_cores
        of_ranks = {rank: use for rank, use in uses.items() if rank is not None}
        if not of_ranks and None in uses:
            of_ranks[attempt.node_rank] = uses[None]
        return dict(sorted(of_ranks.items())[:MOST_RANKS])

    def _slots(self, attempt: Sampled, uses: Mapping[int, _Use]) -> dict[str, float]:
        """Slots are numbered as the script sees them: `gpu0` is its cuda:0."""
        if self._nvml is not None:
            gpus = {
                place: self._nvml.system_values(self._gpu_of(slot))
                for place, slot in enumerate(attempt.slots)
            }
            return {f"gpu{place}/{name}": value for place, gpu in gpus.items() for name, value in gpu.items()}
        count = max(1, len(attempt.slots))
        shares = list(uses.values()) if len(uses) == count else [_mean(uses.values(), count)] * count
        return {
            f"slot{place}/{name}": value
            for place, use in enumerate(shares)
            for name, value in (
                ("utilisation", round(min(1.0, use.cpu_cores / self._cores_per_slot), 4)),
                ("memory_bytes", use.rss_bytes),
            )
        }


def _of_ranks(uses: Mapping[int, _Use]) -> dict[str, float]:
    return {
        f"rank{rank}/{name}": value
        for rank, use in uses.items()
        for name, value in (("cpu_cores", round(use.cpu_cores, 3)), ("rss_bytes", use.rss_bytes))
    }


def _mean(uses: Iterable[_Use], count: int) -> _Use:
    listed = list(uses)
    cpu_cores, rss_bytes = sum(use.cpu_cores for use in listed), sum(use.rss_bytes for use in listed)
    return _Use(cpu_cores / count, rss_bytes // count)


def _counters() -> dict[str, int]:
    """Bytes since the start of the host; what it does not count is absent."""
    disk: Any = psutil.disk_io_counters()
    network: Any = psutil.net_io_counters()
    counted: dict[str, int] = {}
    if disk is not None:
        counted |= {"disk_read": disk.read_bytes, "disk_write": disk.write_bytes}
    if network is not None:
        counted |= {"network_received": network.bytes_recv, "network_sent": network.bytes_sent}
    return counted


def _append(path: Path, line: bytes, cap_bytes: int) -> None:
    """Blocks that have been sent were given back, so those of the file are the unsent ones."""
    with open(path, "ab") as file:
        if os.fstat(file.fileno()).st_blocks * _BLOCK < cap_bytes:
            file.write(line)
