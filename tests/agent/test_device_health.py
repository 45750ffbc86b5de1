"""Readings of device health: GPUs by a driver that stands in at the border of pynvml, disks and clocks for real."""

from __future__ import annotations

import os
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agent.probes.devices import Devices
from agent.probes.gpu_health import GpuHealth, Window
from agent.probes.host_health import HostHealth
from platform_core.cluster.device_health import READINGS
from platform_core.node.description import SlotTelemetry, Telemetry
from tests.agent.conftest import AgentProcess
from tests.support.gateway import Gateway

HOUR = 3600.0


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Driver:
    """As much of pynvml as is asked for; what a test does not set, this GPU does not support."""

    nvmlEventTypeXidCriticalError = 8

    class NVMLError(Exception):
        pass

    def __init__(self) -> None:
        self.lost: set[int] = set()
        self.ecc: dict[tuple[int, int, int], int] = {}  # by GPU, kind and counter
        self.reasons = 0
        self.rows: tuple[int, int, int, int] | None = None
        self.replays: int | None = None
        self.link_errors: dict[int, int] = {}
        self.xids: list[tuple[int, int]] = []

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        if index in self.lost:
            raise self.NVMLError("GPU is lost")
        return index

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:
        return SimpleNamespace(total=1, used=0)

    def nvmlDeviceGetPciInfo(self, handle: int) -> Any:
        return SimpleNamespace(busId=b"00000000:%02X:00.0" % (0x3B + handle))

    def nvmlDeviceGetTotalEccErrors(self, handle: int, kind: int, counter: int) -> int:
        if (handle, kind, counter) not in self.ecc:
            raise self.NVMLError("not supported")
        return self.ecc[handle, kind, counter]

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: int) -> int:
        return self.reasons

    def nvmlDeviceGetRemappedRows(self, handle: int) -> tuple[int, int, int, int]:
        if self.rows is None:
            raise self.NVMLError("not supported")
        return self.rows

    def nvmlDeviceGetPcieReplayCounter(self, handle: int) -> int:
        if self.replays is None:
            raise self.NVMLError("not supported")
        return self.replays

    def nvmlDeviceGetNvLinkState(self, handle: int, link: int) -> int:
        if link not in self.link_errors:
            raise self.NVMLError("no such link")
        return 1

    def nvmlDeviceGetNvLinkErrorCounter(self, handle: int, link: int, counter: int) -> int:
        return self.link_errors[link] if counter == 0 else 0

    def nvmlEventSetCreate(self) -> str:
        return "events"

    def nvmlDeviceRegisterEvents(self, handle: int, kinds: int, events: str) -> None:
        assert kinds == self.nvmlEventTypeXidCriticalError

    def nvmlEventSetWait_v2(self, events: str, milliseconds: int) -> Any:
        if not self.xids:
            raise self.NVMLError("timeout")
        device, number = self.xids.pop(0)
        return SimpleNamespace(device=device, eventData=number)

    def nvmlDeviceGetIndex(self, handle: int) -> int:
        return handle


def health(driver: Driver, tmp_path: Path, clock: Clock | None = None) -> GpuHealth:
    return GpuHealth(driver, [0, 1], tmp_path / "kmsg", clock or Clock())


def test_a_healthy_gpu_has_no_readings(tmp_path: Path) -> None:
    driver = Driver()
    driver.ecc = {(0, 0, 0): 5, (0, 1, 0): 0, (0, 1, 1): 0}
    driver.rows, driver.replays = (0, 0, 0, 0), 3
    assert health(driver, tmp_path).read() == {0: {}, 1: {}}


def test_everything_that_may_fail_has_a_reading_that_a_rule_knows(tmp_path: Path) -> None:
    driver, clock = Driver(), Clock()
    driver.ecc = {(0, 0, 0): 5, (0, 1, 0): 1, (0, 1, 1): 20}
    driver.replays, driver.link_errors = 3, {0: 1, 5: 0}
    probe = health(driver, tmp_path, clock)
    probe.read()
    clock.now += 60
    driver.ecc |= {(0, 0, 0): 1005, (0, 1, 0): 3}
    driver.replays, driver.link_errors, driver.rows = 10, {0: 101, 5: 7}, (1, 2, 1, 1)
    driver.reasons = 0x40 | 0x80
    driver.xids = [(0, 48), (1, 79), (1, 79)]
    readings = probe.read()
    assert readings[0] == {
        "ecc_corrected_hour": 1000, "ecc_uncorrected_hour": 2, "ecc_uncorrected_lifetime": 20,
        "pcie_replays_hour": 7, "nvlink_errors_hour": 107, "rows_remapped_uncorrectable": 2,
        "row_remap_pending": 1, "row_remap_failed": 1, "throttle_thermal": 1, "throttle_hardware": 1, "xid_48": 1,
    }  # fmt: skip
    assert readings[1]["xid_79"] == 2
    assert readings[0].keys() | readings[1].keys() <= READINGS


def test_a_gpu_that_falls_off_the_bus_is_lost_and_the_other_is_read(tmp_path: Path) -> None:
    driver = Driver()
    probe = health(driver, tmp_path)
    driver.lost = {1}
    assert probe.read() == {0: {}, 1: {"gpu_lost": 1}}


def test_xids_come_from_the_kernel_log_where_it_may_be_read_and_only_new_ones(tmp_path: Path) -> None:
    log = tmp_path / "kmsg"
    log.write_text("3,1,2,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n")
    probe = health(Driver(), tmp_path)
    with open(log, "a") as file:
        file.write(
            "3,2,3,-;NVRM: Xid (PCI:0000:3c:00): 95, pid='<unknown>', Uncontained\n6,3,4,-;usb 1-1: new\n"
        )
        file.write("3,4,5,-;NVRM: Xid (PCI:0000:99:00): 79, of a GPU that is no slot\n")
    assert probe.read() == {0: {}, 1: {"xid_95": 1}}
    assert probe.read() == {0: {}, 1: {"xid_95": 1}}


def test_a_rise_is_that_of_the_last_hour_and_a_counter_may_begin_anew() -> None:
    clock = Clock()
    window = Window(clock)
    assert window.rise(0, "ecc", 100) == 0
    clock.now += 60
    assert window.rise(0, "ecc", 130) == 30
    clock.now += HOUR
    assert window.rise(0, "ecc", 131) == 1
    assert window.rise(0, "ecc", 2) == 0
    assert window.rise(0, "ecc", 4) == 2
    clock.now += 2 * HOUR
    assert window.rise(0, "ecc", 4) == 0


def test_events_are_forgotten_after_an_hour() -> None:
    clock = Clock()
    window = Window(clock)
    window.happened(1, "xid_79")
    clock.now += HOUR / 2
    window.happened(1, "xid_79")
    assert (window.events(1), window.events(0)) == ({"xid_79": 2}, {})
    clock.now += HOUR / 2
    assert window.events(1) == {"xid_79": 1}


def test_a_disk_that_takes_files_says_how_long_it_took(tmp_path: Path) -> None:
    probe = HostHealth(tmp_path)
    assert set(probe.read()) <= {"disk_write_ms", "smart_failing"}
    assert probe.waiting_ms() == 0


def test_a_folder_that_takes_no_file_is_a_failed_disk(tmp_path: Path) -> None:
    (tmp_path / "write-probe").mkdir()
    assert HostHealth(tmp_path).read()["disk_write_failed"] == 1


def test_a_read_only_file_system_is_told_as_one() -> None:
    read_only = next(Path(line.split()[1]) for line in Path("/proc/mounts").read_text().splitlines()
                     if "ro" in line.split()[3].split(",") and os.path.isdir(line.split()[1]))  # fmt: skip
    assert HostHealth(read_only).read()["disk_read_only"] == 1


def test_readings_are_added_to_the_telemetry_of_their_slot_and_node() -> None:
    devices = Devices(None, None)
    devices.clock_offset_ms = -2500.4
    devices.uploads_waiting_ms = lambda: 61_000.2
    devices._keep_gpus({1: {"xid_79": 1.0}})
    devices._keep_host({"disk_write_ms": 3.0})
    added = devices.added_to(Telemetry(1, 2, (SlotTelemetry(0), SlotTelemetry(1))))
    assert [slot.readings for slot in added.slots] == [{}, {"xid_79": 1.0}]
    assert added.readings == {
        "disk_write_ms": 3.0,
        "clock_offset_ms": 2500.0,
        "uploads_waiting_ms": 61_000.0,
    }


FAKE_PYNVML = """
from types import SimpleNamespace
NVML_TEMPERATURE_GPU = NVML_VOLATILE_ECC = NVML_MEMORY_ERROR_TYPE_CORRECTED = NVML_P2P_STATUS_OK = 0
NVML_AGGREGATE_ECC = NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1
NVML_P2P_CAPS_INDEX_NVLINK, nvmlEventTypeXidCriticalError = 2, 8

class NVMLError(Exception):
    pass

def _unsupported(*_):
    raise NVMLError("not supported")

nvmlInit = lambda: None
nvmlSystemGetDriverVersion = lambda: "550.1"
nvmlDeviceGetCount = lambda: 3

def nvmlDeviceGetHandleByIndex(index):
    if index == 1:
        raise NVMLError("GPU is lost")
    return index

nvmlDeviceGetName = lambda handle: "NVIDIA A100-SXM4-80GB"
nvmlDeviceGetUUID = lambda handle: f"GPU-{handle}"
nvmlDeviceGetMemoryInfo = lambda handle: SimpleNamespace(total=80 << 30, used=0)
nvmlDeviceGetRemappedRows = lambda handle: (0, 0, handle == 2, 0)
nvmlDeviceGetP2PStatus = nvmlDeviceGetUtilizationRates = nvmlDeviceGetTemperature = _unsupported
nvmlDeviceGetTotalEccErrors = nvmlDeviceGetPowerUsage = _unsupported
"""


async def test_an_agent_starts_beside_a_dead_gpu_and_tells_what_the_others_read(
    gateway: Gateway, agent: AgentProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module in the place of pynvml, with GPU 1 of 3 off the bus and rows of GPU 2 waiting to be remapped."""
    border = tmp_path / "border"
    border.mkdir()
    (border / "pynvml.py").write_text(textwrap.dedent(FAKE_PYNVML))
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(border), *filter(None, [os.environ.get("PYTHONPATH")])])
    )
    await agent.start("--slots", "0")
    await gateway.until(lambda: gateway.hellos)
    node = gateway.hellos[0].node
    assert [slot.index for slot in node.slots] == [0, 2]
    assert list(node.hardware_faults) == ["GPU 1 does not answer and is not offered: GPU is lost."]
    told = await gateway.until(
        lambda: next(
            (
                beat.telemetry
                for beat in gateway.heartbeats
                if any(slot.readings for slot in beat.telemetry.slots)
            ),
            None,
        )
    )
    assert {slot.index: dict(slot.readings) for slot in told.slots} == {0: {}, 2: {"row_remap_pending": 1.0}}
    assert agent.process is not None
    assert agent.process.returncode is None, sys.executable


async def test_the_offset_from_the_clock_of_the_platform_goes_up(
    gateway: Gateway, agent: AgentProcess
) -> None:
    gateway.clock_ahead_ms = 5_000
    await agent.start()
    told = await gateway.until(
        lambda: next(
            (beat.telemetry for beat in gateway.heartbeats if "clock_offset_ms" in beat.telemetry.readings),
            None,
        )
    )
    assert 4_000 <= told.readings["clock_offset_ms"] <= 6_000
