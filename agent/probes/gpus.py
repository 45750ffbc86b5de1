"""GPUs by NVML, where there are any."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from agent.probes.gpu_health import GpuHealth
from agent.probes.profiling import DcgmExporter, Gpm
from platform_core.cluster.topology import numbered
from platform_core.node.description import POWER, SlotDescription, SlotTelemetry

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Gpus:
    gpus: tuple[SlotDescription, ...]
    faults: tuple[str, ...]  # a sentence for each GPU that is there but does not answer


class Nvml:
    """NVML kept open. Every call may fail for one GPU (it fell off the bus) without harm to the others."""

    def __init__(self, library: Any, exporter: DcgmExporter | None = None) -> None:
        """Profiling counters come from the exporter where one is given."""
        self._library, self._exporter = library, exporter
        self._gpm = Gpm(library)

    @classmethod
    def open(cls, exporter: DcgmExporter | None = None) -> Nvml | None:
        """None on a machine without NVIDIA's driver."""
        try:
            import pynvml

            pynvml.nvmlInit()
        except Exception as error:  # the library is absent or does not load, in a dozen ways
            log.debug("no NVML: %s", error)
            return None
        return cls(pynvml, exporter)

    def health(self, indices: Iterable[int]) -> GpuHealth:
        return GpuHealth(self._library, indices)

    def driver_version(self) -> str:
        """Empty when the driver does not tell."""
        version = self._ask(self._library.nvmlSystemGetDriverVersion)
        return "" if version is None else _text(version)

    def gpus(self) -> Gpus:
        """A GPU that fell off the bus is a fault, and the others keep their numbers."""
        gpus: dict[int, SlotDescription] = {}
        handles: dict[int, Any] = {}
        faults = []
        for index in range(self._library.nvmlDeviceGetCount()):
            try:
                handles[index], gpus[index] = self._gpu(index)
            except self._library.NVMLError as error:
                faults.append(f"GPU {index} does not answer and is not offered: {error}.")
        islands = self._islands(list(handles.values()))
        linked = (replace(gpu, island=island) for gpu, island in zip(gpus.values(), islands, strict=True))
        return Gpus(tuple(linked), tuple(faults))

    def _gpu(self, index: int) -> tuple[Any, SlotDescription]:
        nvml = self._library
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        name, uuid = _text(nvml.nvmlDeviceGetName(handle)), _text(nvml.nvmlDeviceGetUUID(handle))
        return handle, SlotDescription(index, name, uuid, int(nvml.nvmlDeviceGetMemoryInfo(handle).total))

    def _islands(self, handles: list[Any]) -> tuple[int, ...]:
        """By NVLink from GPU to GPU, over switches or not; what a driver does not tell counts as no link."""
        nvml = self._library
        links = [
            (one, other)
            for one, other in combinations(range(len(handles)), 2)
            if self._ask(
                nvml.nvmlDeviceGetP2PStatus, handles[one], handles[other], nvml.NVML_P2P_CAPS_INDEX_NVLINK
            )
            == nvml.NVML_P2P_STATUS_OK
        ]
        return numbered(len(handles), links)

    def read(self, index: int) -> SlotTelemetry:
        nvml = self._library
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
        except nvml.NVMLError:
            return SlotTelemetry(index)
        utilisation = self._ask(nvml.nvmlDeviceGetUtilizationRates, handle)
        memory = self._ask(nvml.nvmlDeviceGetMemoryInfo, handle)
        corrected, uncorrected = (
            nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED,
            nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
        )
        temperature = self._ask(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU)
        watts = self._power_watts(index)
        return SlotTelemetry(
            index,
            utilisation=None if utilisation is None else utilisation.gpu / 100,
            memory_used_bytes=None if memory is None else int(memory.used),
            temperature_celsius=None if temperature is None else float(temperature),
            ecc_corrected=self._ecc(handle, corrected, nvml.NVML_VOLATILE_ECC),
            ecc_uncorrected=self._ecc(handle, uncorrected, nvml.NVML_VOLATILE_ECC),
            ecc_corrected_lifetime=self._ecc(handle, corrected, nvml.NVML_AGGREGATE_ECC),
            ecc_uncorrected_lifetime=self._ecc(handle, uncorrected, nvml.NVML_AGGREGATE_ECC),
            readings={**({} if watts is None else {POWER: watts}), **self.profile(index)},
        )

    def system_values(self, index: int) -> dict[str, float]:
        """By the names of system series; what this GPU does not measure is absent."""
        telemetry = self.read(index)
        values = {
            "utilisation": telemetry.utilisation,
            "memory_bytes": telemetry.memory_used_bytes,
            "temperature_celsius": telemetry.temperature_celsius,
            **telemetry.readings,
        }
        return {name: value for name, value in values.items() if value is not None}

    def profile(self, index: int) -> Mapping[str, float]:
        """By the names of `platform_core.node.profiling`; empty where nothing counts them."""
        if self._exporter is None:
            return self._gpm.read(index)
        handle = self._ask(self._library.nvmlDeviceGetHandleByIndex, index)
        uuid = None if handle is None else self._ask(self._library.nvmlDeviceGetUUID, handle)
        return self._exporter.read(index, _text(uuid or ""))

    def _power_watts(self, index: int) -> float | None:
        handle = self._ask(self._library.nvmlDeviceGetHandleByIndex, index)
        milliwatts = None if handle is None else self._ask(self._library.nvmlDeviceGetPowerUsage, handle)
        return None if milliwatts is None else milliwatts / 1000

    def _ecc(self, handle: Any, kind: int, counter: int) -> int | None:
        count = self._ask(self._library.nvmlDeviceGetTotalEccErrors, handle, kind, counter)
        return None if count is None else int(count)

    def _ask(self, question: Any, *arguments: Any) -> Any:
        with contextlib.suppress(self._library.NVMLError):
            return question(*arguments)
        return None


def slug(name: str, memory_bytes: int) -> str:
    """The name of a GPU type: "NVIDIA A100-SXM4-80GB" is a100-80gb, "NVIDIA H100 80GB HBM3" is h100-80gb."""
    words = re.findall(r"[a-z0-9]+", name.lower())
    makers = ("nvidia", "tesla", "geforce", "quadro", "rtx", "gtx", "graphics", "device")
    model = next((word for word in words if word not in makers and re.search(r"\d", word)), "gpu")
    if "rtx" in words:
        model = f"rtx{model}"
    stated = next((word for word in words if re.fullmatch(r"\d+gb", word) and word != model), "")
    # What is left of the memory for use is a little less than what the name says.
    return f"{model}-{stated or f'{_round_up(memory_bytes)}gb'}"


def _round_up(memory_bytes: int) -> int:
    gib = memory_bytes / (1 << 30)
    usual = (
        4,
        6,
        8,
        10,
        11,
        12,
        16,
        20,
        22,
        24,
        32,
        40,
        44,
        48,
        64,
        80,
        94,
        96,
        128,
        141,
        144,
        180,
        192,
        288,
    )
    return next((size for size in usual if gib <= size), round(gib))


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
