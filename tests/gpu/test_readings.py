"""NVML as the agent reads it, against nvidia-smi."""

from __future__ import annotations

import subprocess
import time

import pytest

from agent.probes.gpus import Nvml, slug
from agent.probes.profiling import LEAST_SECONDS
from agent.probes.slots import find_slots

pytestmark = pytest.mark.gpu
MIB = 1 << 20


def smi(*fields: str) -> list[list[str]]:
    """By GPU, "[N/A]" where it does not have one."""
    command = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    return [[word.strip() for word in line.split(",")] for line in answer.splitlines()]


def test_slots_are_the_gpus_that_nvidia_smi_lists(nvml: Nvml) -> None:
    found = find_slots(nvml, 0, "")
    listed = smi("index", "uuid", "name", "memory.total")
    assert [(slot.index, slot.uuid, slot.name) for slot in found.slots] == [
        (int(index), uuid, name) for index, uuid, name, _ in listed
    ]
    for slot, (*_, mib) in zip(found.slots, listed, strict=True):
        assert slot.memory_bytes == pytest.approx(int(mib) * MIB, rel=0.02)
    assert found.gpu_type == slug(found.slots[0].name, found.slots[0].memory_bytes)
    assert found.faults == ()


def test_the_driver_is_the_one_that_nvidia_smi_names(nvml: Nvml) -> None:
    assert nvml.driver_version() == smi("driver_version")[0][0]


def test_temperature_and_memory_are_those_of_nvidia_smi(nvml: Nvml) -> None:
    for index, (used, celsius) in enumerate(smi("memory.used", "temperature.gpu")):
        reading = nvml.read(index)
        assert reading.utilisation is not None
        assert 0 <= reading.utilisation <= 1
        assert reading.temperature_celsius == pytest.approx(float(celsius), abs=5)
        assert reading.memory_used_bytes is not None
        # NVML counts what the driver keeps for itself as used, nvidia-smi as reserved.
        assert reading.memory_used_bytes == pytest.approx(int(used) * MIB, abs=2048 * MIB)


def test_memory_errors_are_those_of_nvidia_smi(nvml: Nvml) -> None:
    counters = [
        f"ecc.errors.{kind}.{age}.total"
        for age in ("volatile", "aggregate")
        for kind in ("corrected", "uncorrected")
    ]
    for index, row in enumerate(smi(*counters)):
        reading = nvml.read(index)
        ours = (
            *(reading.ecc_corrected, reading.ecc_uncorrected),
            *(reading.ecc_corrected_lifetime, reading.ecc_uncorrected_lifetime),
        )
        assert ours == tuple(int(word) if word.isdigit() else None for word in row)


def test_profiling_counters_see_a_gpu_that_multiplies_matrices(nvml: Nvml) -> None:
    """Hopper and later; an earlier GPU has none, and says so by leaving them out."""
    torch = pytest.importorskip("torch")
    nvml.read(0)
    one = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    began = time.monotonic()
    while time.monotonic() - began < 2 * LEAST_SECONDS:
        for _ in range(20):
            one @ one
        torch.cuda.synchronize()
    readings = nvml.read(0).readings
    if torch.cuda.get_device_capability() < (9, 0):
        assert "sm_active" not in readings
        return
    assert 0.5 < readings["sm_active"] <= 1
    assert 0.3 < readings["tensor_active"] <= 1
    assert 0 < readings["memory_bandwidth_used"] <= 1
    assert readings["pcie_received_bytes_per_second"] >= 0
