"""What the profiling counters of a GPU tell of its work, by the names of readings and series.

Utilisation says that some kernel ran; these say how much of the chip it used.
"""

from __future__ import annotations

from dataclasses import dataclass

from platform_core.units import MIB


@dataclass(frozen=True, slots=True)
class Field:
    """Where a value comes from: the number of a metric of NVML's GPM and the name of a field of dcgm-exporter.

    Sources: nvml.h (NVML_GPM_METRIC_…, in percent and MiB a second) and dcgm_fields.h (DCGM_FI_PROF_…, 0 to 1 and bytes
    a second), as of 2025.
    """

    name: str
    words: str
    gpm: int
    gpm_scale: float
    dcgm: str

    @property
    def suffix(self) -> str:
        """Of its name as a metric of Prometheus: a share has the unit ratio."""
        return "" if self.name.endswith("_per_second") else "_ratio"


FIELDS = (
    Field("sm_active", "Share of the SMs that were busy, 0 to 1.", 2, 0.01, "DCGM_FI_PROF_SM_ACTIVE"),
    Field(
        "tensor_active",
        "Share of time in which the tensor cores were busy, 0 to 1.",
        5,
        0.01,
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
    ),
    Field(
        "memory_bandwidth_used",
        "Share of the memory's bandwidth in use, 0 to 1.",
        10,
        0.01,
        "DCGM_FI_PROF_DRAM_ACTIVE",
    ),
    Field(
        "nvlink_received_bytes_per_second",
        "Bytes received over NVLink.",
        60,
        MIB,
        "DCGM_FI_PROF_NVLINK_RX_BYTES",
    ),
    Field("nvlink_sent_bytes_per_second", "Bytes sent over NVLink.", 61, MIB, "DCGM_FI_PROF_NVLINK_TX_BYTES"),
    Field(
        "pcie_received_bytes_per_second",
        "Bytes received over PCIe.",
        21,
        MIB,
        "DCGM_FI_PROF_PCIE_RX_BYTES",
    ),
    Field("pcie_sent_bytes_per_second", "Bytes sent over PCIe.", 20, MIB, "DCGM_FI_PROF_PCIE_TX_BYTES"),
)
NAMES = frozenset(field.name for field in FIELDS)
