"""What a node says it has."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agent.probes.gpus import Nvml, slug
from agent.probes.network import interface_of
from agent.probes.slots import find_slots, usable_cpus
from agent.probes.telemetry import Probe
from platform_core.node.description import POWER, SlotTelemetry

GIB = 1 << 30


@pytest.mark.parametrize(
    ("name", "memory", "expected"),
    [
        ("NVIDIA A100-SXM4-80GB", 80 * GIB, "a100-80gb"),
        ("NVIDIA H100 80GB HBM3", 79 * GIB, "h100-80gb"),
        ("NVIDIA H200", 139 * GIB, "h200-141gb"),
        ("Tesla V100-SXM2-16GB", 16 * GIB, "v100-16gb"),
        ("Tesla T4", int(14.6 * GIB), "t4-16gb"),
        ("NVIDIA L40S", 44 * GIB, "l40s-44gb"),
        ("NVIDIA GeForce RTX 4090", int(23.6 * GIB), "rtx4090-24gb"),
        ("NVIDIA B200", 178 * GIB, "b200-180gb"),
        ("Something", 8 * GIB, "gpu-8gb"),
    ],
)
def test_a_gpu_type_is_named_by_model_and_memory(name: str, memory: int, expected: str) -> None:
    assert slug(name, memory) == expected


class Driver:
    """As much of pynvml as is asked for, with one GPU that has no ECC and one that fell off the bus."""

    NVML_TEMPERATURE_GPU, NVML_VOLATILE_ECC, NVML_AGGREGATE_ECC = 0, 0, 1
    NVML_P2P_CAPS_INDEX_NVLINK, NVML_P2P_STATUS_OK = 2, 0
    NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 0, 1

    class NVMLError(Exception):
        pass

    def nvmlDeviceGetCount(self) -> int:
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        if self.lost and index + self.first >= 1:
            raise self.NVMLError("GPU is lost")
        return index

    lost, first = False, 0

    def nvmlDeviceGetName(self, handle: int) -> str:
        return "NVIDIA A100-SXM4-80GB"

    def nvmlDeviceGetUUID(self, handle: int) -> bytes:
        return b"GPU-%d" % handle

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:
        return SimpleNamespace(total=80 * GIB, used=3 * GIB)

    linked: frozenset[frozenset[int]] = frozenset()

    def nvmlDeviceGetP2PStatus(self, one: int, other: int, kind: int) -> int:
        return 0 if frozenset((one, other)) in self.linked else 2

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:
        return SimpleNamespace(gpu=50)

    def nvmlDeviceGetTemperature(self, handle: int, kind: int) -> int:
        return 61

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:
        return 251_300

    def nvmlDeviceGetTotalEccErrors(self, handle: int, kind: int, counter: int) -> int:
        if not self.ecc:
            raise self.NVMLError("not supported")
        return self.ecc[kind, counter]

    ecc: dict[tuple[int, int], int] = {}  # by kind of error and counter


def test_gpus_are_slots_and_what_they_do_not_measure_is_absent() -> None:
    driver = Driver()
    nvml = Nvml(driver)
    found = find_slots(nvml, 0, "")
    assert (found.gpu_type, found.gpu_uuids) == ("a100-80gb", {0: "GPU-0", 1: "GPU-1"})
    assert nvml.read(0) == SlotTelemetry(0, 0.5, 3 * GIB, 61.0, readings={POWER: 251.3})
    driver.lost = True
    assert nvml.read(1) == SlotTelemetry(1)


def test_memory_errors_are_told_by_kind_and_by_age() -> None:
    driver = Driver()
    corrected, uncorrected = (
        driver.NVML_MEMORY_ERROR_TYPE_CORRECTED,
        driver.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
    )
    driver.ecc = {
        (corrected, driver.NVML_VOLATILE_ECC): 3,
        (uncorrected, driver.NVML_VOLATILE_ECC): 1,
        (corrected, driver.NVML_AGGREGATE_ECC): 700,
        (uncorrected, driver.NVML_AGGREGATE_ECC): 20,
    }
    reading = Nvml(driver).read(0)
    assert (reading.ecc_corrected, reading.ecc_uncorrected) == (3, 1)
    assert (reading.ecc_corrected_lifetime, reading.ecc_uncorrected_lifetime) == (700, 20)


def test_a_gpu_that_fell_off_the_bus_is_reported_and_the_others_are_offered() -> None:
    driver = Driver()
    driver.lost = True
    found = find_slots(Nvml(driver), 0, "")
    assert (found.gpu_type, found.gpu_uuids) == ("a100-80gb", {0: "GPU-0"})
    assert found.faults == ("GPU 1 does not answer and is not offered: GPU is lost.",)


def test_a_machine_whose_every_gpu_is_lost_does_not_offer_its_cpus_instead(tmp_path: Path) -> None:
    driver = Driver()
    driver.lost, driver.first = True, 1
    nvml = Nvml(driver)
    found = find_slots(nvml, 0, "")
    assert (found.slots, len(found.faults)) == ((), 2)
    assert Probe(found, nvml, tmp_path).read(()).slots == ()


def test_gpus_that_nvlink_joins_are_of_one_island() -> None:
    driver = Driver()
    assert [slot.island for slot in find_slots(Nvml(driver), 0, "").slots] == [0, 0]
    driver.linked = frozenset([frozenset((0, 1))])
    assert [slot.island for slot in find_slots(Nvml(driver), 0, "").slots] == [1, 1]


def test_islands_can_be_stated() -> None:
    assert [slot.island for slot in find_slots(None, 6, "", 4).slots] == [1, 1, 1, 1, 2, 2]


def test_asking_for_cpu_slots_hides_the_gpus() -> None:
    found = find_slots(Nvml(Driver()), 3, "")
    assert (found.gpu_type, len(found.slots), found.gpu_uuids) == ("cpu", 3, {})


def test_a_machine_without_gpus_has_a_slot_for_each_core() -> None:
    found = find_slots(None, 0, "")
    assert (found.gpu_type, len(found.slots)) == ("cpu", usable_cpus())


def test_the_interface_is_the_one_that_has_the_address() -> None:
    assert interface_of("127.0.0.1") == "lo"
    assert interface_of("host.that.does.not.exist.invalid") == ""


def test_shares_of_a_gpu_are_slots_of_a_type_of_their_own(tmp_path: Path) -> None:
    nvml = Nvml(Driver())
    node = find_slots(nvml, 0, "", shares=4)
    assert node.gpu_type == "a100-80gb-1of4"
    assert [(slot.index, slot.uuid, slot.memory_bytes) for slot in node.slots] == [
        *((place, "GPU-0", 20 * GIB) for place in range(4)), *((place, "GPU-1", 20 * GIB) for place in range(4, 8)),
    ]  # fmt: skip
    assert [node.gpu_of(slot.index) for slot in node.slots] == [0] * 4 + [1] * 4
    assert node.gpu_uuids[5] == "GPU-1"
    readings = Probe(node, nvml, tmp_path).read([]).slots
    assert [one.index for one in readings] == list(range(8))
    assert {one.memory_used_bytes for one in readings} == {None}
    assert readings[3].temperature_celsius == nvml.read(0).temperature_celsius


def test_cpu_slots_are_not_shared() -> None:
    assert find_slots(None, 3, "", shares=4) == find_slots(None, 3, "")
