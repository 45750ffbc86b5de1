"""Profiling counters of GPUs: by NVML's GPM, which Hopper and later have, or from a dcgm-exporter on this node."""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from platform_core.node.profiling import FIELDS

log = logging.getLogger(__name__)

LEAST_SECONDS = 1.0  # between two samples of a GPU: a shorter time says little
STALE_SECONDS = 30.0
EXPORTER_SECONDS = 2.0  # that it may take to answer
MOST_BYTES = 4 << 20  # of its answer: a node of 16 GPUs with every field has a tenth of that
_BY_DCGM = {each.dcgm: each.name for each in FIELDS}


@dataclass(slots=True)
class _Gpu:
    before: Any  # samples of the driver, the older and a spare one
    spare: Any
    taken_at: float
    values: Mapping[str, float] = field(default_factory=dict)


class Gpm:
    """Each value is the mean between two samples. Thread-safe: telemetry and system series both ask."""

    def __init__(self, library: Any, clock: Callable[[], float] = time.monotonic) -> None:
        self._nvml, self._clock, self._lock = library, clock, threading.Lock()
        self._gpus: dict[int, _Gpu | None] = {}  # None: it has no such counters

    def read(self, index: int) -> Mapping[str, float]:
        """Empty for a GPU without them, and until the second sample."""
        with self._lock, contextlib.suppress(self._nvml.NVMLError, AttributeError):
            if index not in self._gpus:
                self._gpus[index] = self._begin(index)
            gpu = self._gpus[index]
            if gpu is None:
                return {}
            if self._clock() - gpu.taken_at >= LEAST_SECONDS:
                self._sample(index, gpu)
            return gpu.values
        return {}

    def _begin(self, index: int) -> _Gpu | None:
        nvml = self._nvml
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        try:
            supported = nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice
        except (nvml.NVMLError, AttributeError):  # a driver or a library from before
            supported = False
        if not supported:
            return None
        sample, spare = nvml.nvmlGpmSampleAlloc(), nvml.nvmlGpmSampleAlloc()
        nvml.nvmlGpmSampleGet(handle, sample)
        return _Gpu(sample, spare, self._clock())

    def _sample(self, index: int, gpu: _Gpu) -> None:
        nvml = self._nvml
        gpu.values = {}  # until this succeeds: old values say nothing about now
        nvml.nvmlGpmSampleGet(nvml.nvmlDeviceGetHandleByIndex(index), gpu.spare)
        asked = nvml.c_nvmlGpmMetricsGet_t()
        asked.version, asked.numMetrics = nvml.NVML_GPM_METRICS_GET_VERSION, len(FIELDS)
        asked.sample1, asked.sample2 = gpu.before, gpu.spare
        for place, each in enumerate(FIELDS):
            asked.metrics[place].metricId = each.gpm
        gpu.before, gpu.spare, gpu.taken_at = gpu.spare, gpu.before, self._clock()
        nvml.nvmlGpmMetricsGet(asked)
        gpu.values = {
            each.name: round(answer.value * each.gpm_scale, 4)
            for each, answer in zip(FIELDS, asked.metrics, strict=False)
            if answer.nvmlReturn == 0 and math.isfinite(answer.value)
        }


class DcgmExporter:
    """Its answer, fetched now and then by `fetch`, by GPU. An exporter that is away leaves the values out."""

    def __init__(self, url: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._url, self._clock = url, clock
        self._gpus: Mapping[str, Mapping[str, float]] = {}
        self._fetched_at = -math.inf
        self._complained = False

    def fetch(self) -> None:
        """Blocks for at most some seconds; never raises."""
        try:
            with urllib.request.urlopen(self._url, timeout=EXPORTER_SECONDS) as answer:  # noqa: S310 - the operator's own
                self._gpus = parsed(answer.read(MOST_BYTES).decode())
            self._fetched_at, self._complained = self._clock(), False
        except (OSError, ValueError) as error:
            if not self._complained:
                log.warning("%s has no profiling counters: %s", self._url, error)
            self._complained = True

    def read(self, index: int, uuid: str) -> Mapping[str, float]:
        """Empty where the last answer is old."""
        if self._clock() - self._fetched_at > STALE_SECONDS:
            return {}
        return self._gpus.get(uuid) or self._gpus.get(str(index), {})


def parsed(text: str) -> dict[str, dict[str, float]]:
    """The values of whole GPUs by UUID and by number; parts of a GPU (MIG) are left out. Raises ValueError."""
    gpus: dict[str, dict[str, float]] = defaultdict(dict)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            # Some exporters declare a rate as a counter, whose samples the parser names anew.
            name = _BY_DCGM.get(sample.name.removesuffix("_total"))
            if name is None or sample.labels.get("GPU_I_ID") or not math.isfinite(sample.value):
                continue
            for key in filter(None, (sample.labels.get("UUID"), sample.labels.get("gpu"))):
                gpus[key][name] = sample.value
    return dict(gpus)
