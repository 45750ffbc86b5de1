"""Profiling counters of GPUs: by NVML's GPM, and from a dcgm-exporter."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from threading import Thread
from typing import Any
from wsgiref.simple_server import make_server

import pynvml
import pytest

from agent.probes.gpus import Nvml
from agent.probes.profiling import LEAST_SECONDS, STALE_SECONDS, DcgmExporter, Gpm, parsed
from platform_core.node.description import POWER
from platform_core.node.profiling import FIELDS
from tests.agent.test_probes import Driver
from trainmaster.process_metrics import serve

MIB = 1 << 20
PERCENT = {"sm_active": 93.5, "tensor_active": 71.25, "memory_bandwidth_used": 44.0}
SHARES = {"sm_active": 0.935, "tensor_active": 0.7125, "memory_bandwidth_used": 0.44}
# As dcgm-exporter 4 writes it, with labels that it adds and a field that nobody asked for.
ANSWER = """
# HELP DCGM_FI_PROF_SM_ACTIVE The ratio of cycles an SM has at least 1 warp assigned.
# TYPE DCGM_FI_PROF_SM_ACTIVE gauge
DCGM_FI_PROF_SM_ACTIVE{gpu="0",UUID="GPU-0",pci_bus_id="00000000:07:00.0",device="nvidia0",modelName="NVIDIA A100-SXM4-80GB",Hostname="gpu-1",DCGM_FI_DRIVER_VERSION="550.54"} 0.935
DCGM_FI_PROF_SM_ACTIVE{gpu="1",UUID="GPU-1",pci_bus_id="00000000:0F:00.0",device="nvidia1",modelName="NVIDIA A100-SXM4-80GB",Hostname="gpu-1",DCGM_FI_DRIVER_VERSION="550.54"} 0.000000
DCGM_FI_PROF_SM_ACTIVE{gpu="1",UUID="GPU-1",GPU_I_PROFILE="1g.10gb",GPU_I_ID="7",device="nvidia1",Hostname="gpu-1"} 0.5
# HELP DCGM_FI_PROF_PIPE_TENSOR_ACTIVE Ratio of cycles the tensor (HMMA) pipe is active.
# TYPE DCGM_FI_PROF_PIPE_TENSOR_ACTIVE gauge
DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{gpu="0",UUID="GPU-0",device="nvidia0",Hostname="gpu-1"} 0.7125
# HELP DCGM_FI_PROF_DRAM_ACTIVE Ratio of cycles the device memory interface is active sending or receiving data.
# TYPE DCGM_FI_PROF_DRAM_ACTIVE gauge
DCGM_FI_PROF_DRAM_ACTIVE{gpu="0",UUID="GPU-0",device="nvidia0",Hostname="gpu-1"} 0.44
# HELP DCGM_FI_PROF_PCIE_TX_BYTES The number of bytes of active pcie tx data including both header and payload.
# TYPE DCGM_FI_PROF_PCIE_TX_BYTES counter
DCGM_FI_PROF_PCIE_TX_BYTES{gpu="0",UUID="GPU-0",device="nvidia0",Hostname="gpu-1"} 38166
# HELP DCGM_FI_PROF_NVLINK_RX_BYTES The number of bytes of active NVLink rx (receive) data.
# TYPE DCGM_FI_PROF_NVLINK_RX_BYTES gauge
DCGM_FI_PROF_NVLINK_RX_BYTES{gpu="0",UUID="GPU-0",device="nvidia0",Hostname="gpu-1"} 1.5e+09
# HELP DCGM_FI_DEV_GPU_TEMP GPU temperature (in C).
# TYPE DCGM_FI_DEV_GPU_TEMP gauge
DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-0",device="nvidia0",Hostname="gpu-1"} 61
"""  # noqa: E501
OF_GPU_0 = {**SHARES, "pcie_sent_bytes_per_second": 38166, "nvlink_received_bytes_per_second": 1.5e9}


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Hopper(Driver):
    """GPM with the structures of the real library; a sample is a number, and this GPU has no NVLink."""

    NVML_GPM_METRICS_GET_VERSION = pynvml.NVML_GPM_METRICS_GET_VERSION
    c_nvmlGpmMetricsGet_t = pynvml.c_nvmlGpmMetricsGet_t
    is_supported, taken, spans = 1, 0, list[tuple[int, int]]()

    def __init__(self) -> None:
        self.spans = []
        self.memory: list[Any] = []

    def nvmlGpmQueryDeviceSupport(self, handle: int) -> Any:
        support = pynvml.c_nvmlGpmSupport_t()
        support.isSupportedDevice = self.is_supported
        return support

    def nvmlGpmSampleAlloc(self) -> Any:
        self.memory.append(ctypes.c_int())
        return ctypes.cast(ctypes.pointer(self.memory[-1]), pynvml.c_nvmlGpmSample_t)

    def nvmlGpmSampleGet(self, handle: int, sample: Any) -> Any:
        self.nvmlDeviceGetHandleByIndex(handle)
        self.taken += 1
        number(sample).value = self.taken
        return sample

    def nvmlGpmMetricsGet(self, asked: Any) -> Any:
        assert (asked.version, asked.numMetrics) == (1, len(FIELDS))
        self.spans.append((number(asked.sample1).value, number(asked.sample2).value))
        by_number = {field.gpm: field for field in FIELDS}
        for metric in asked.metrics[: asked.numMetrics]:
            field = by_number[metric.metricId]
            metric.nvmlReturn = 3 if field.name.startswith("nvlink") else 0  # not supported
            metric.value = PERCENT.get(field.name, 12.0)
        return asked


def number(sample: Any) -> Any:
    return ctypes.cast(sample, ctypes.POINTER(ctypes.c_int)).contents


def test_the_values_of_gpm_are_those_between_two_samples() -> None:
    driver, clock = Hopper(), Clock()
    gpm = Gpm(driver, clock)
    assert gpm.read(0) == {}
    clock.now += LEAST_SECONDS / 2
    assert gpm.read(0) == {}
    clock.now += LEAST_SECONDS
    expected = {**SHARES, "pcie_received_bytes_per_second": 12 * MIB, "pcie_sent_bytes_per_second": 12 * MIB}
    assert gpm.read(0) == gpm.read(0) == expected
    clock.now += LEAST_SECONDS
    assert gpm.read(0) == expected
    assert driver.spans == [(1, 2), (2, 3)]
    assert len(driver.memory) == 2


def test_a_gpu_without_gpm_has_no_such_values_and_is_asked_once() -> None:
    driver, clock = Hopper(), Clock()
    driver.is_supported = 0
    gpm = Gpm(driver, clock)
    for _ in range(3):
        assert gpm.read(0) == {}
        clock.now += LEAST_SECONDS
    assert driver.taken == 0
    assert Gpm(Driver(), clock).read(0) == {}  # a library from before


def test_a_gpu_that_falls_off_the_bus_leaves_no_old_values() -> None:
    driver, clock = Hopper(), Clock()
    gpm = Gpm(driver, clock)
    gpm.read(1)
    clock.now += LEAST_SECONDS
    assert gpm.read(1)["sm_active"] == 0.935
    driver.lost = True
    clock.now += LEAST_SECONDS
    assert gpm.read(1) == {}
    driver.lost = False
    clock.now += LEAST_SECONDS
    assert gpm.read(1)["sm_active"] == 0.935


def test_telemetry_and_the_series_of_a_run_have_them() -> None:
    nvml = Nvml(Hopper())
    nvml._gpm._clock = clock = Clock()
    nvml.read(0)
    clock.now += LEAST_SECONDS
    readings = nvml.read(0).readings
    assert readings[POWER] == 251.3
    assert SHARES.items() <= readings.items()
    assert SHARES.items() <= nvml.system_values(0).items()


class Answer:
    """What the exporter says, over HTTP."""

    text, status = ANSWER, "200 OK"


@pytest.fixture
def exporter() -> Iterator[tuple[Answer, str]]:
    answer = Answer()

    def application(environ: dict[str, Any], start: Any) -> list[bytes]:
        start(answer.status, [("Content-Type", "text/plain; version=0.0.4")])
        return [answer.text.encode()]

    with make_server("127.0.0.1", 0, application) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield answer, f"http://127.0.0.1:{server.server_port}/metrics"
        server.shutdown()


def test_the_fields_of_a_dcgm_exporter_come_by_gpu(exporter: tuple[Answer, str]) -> None:
    reader = DcgmExporter(exporter[1])
    nvml = Nvml(Driver(), reader)
    assert nvml.profile(0) == {}
    reader.fetch()
    assert nvml.profile(0) == OF_GPU_0
    assert nvml.profile(1) == {"sm_active": 0.0}  # of the whole GPU, not of a part of it
    assert OF_GPU_0.items() <= nvml.read(0).readings.items()
    assert reader.read(0, "another") == OF_GPU_0  # by its number, where the exporter names no UUID


@pytest.mark.parametrize(
    ("text", "status"), [("no metrics {", "200 OK"), (ANSWER, "503 Service Unavailable")]
)
def test_an_exporter_that_fails_says_so_once_and_its_values_age(
    exporter: tuple[Answer, str], text: str, status: str, caplog: pytest.LogCaptureFixture
) -> None:
    answer, url = exporter
    clock = Clock()
    reader = DcgmExporter(url, clock)
    reader.fetch()
    answer.text, answer.status = text, status
    for _ in range(3):
        reader.fetch()
    assert len(caplog.records) == 1
    assert url in caplog.text
    assert reader.read(0, "GPU-0") == OF_GPU_0
    clock.now += STALE_SECONDS + 1
    assert reader.read(0, "GPU-0") == {}
    answer.text, answer.status = ANSWER, "200 OK"
    reader.fetch()
    assert reader.read(0, "GPU-0") == OF_GPU_0


def test_an_exporter_that_is_not_there_leaves_the_values_out(caplog: pytest.LogCaptureFixture) -> None:
    server = serve("127.0.0.1:0", "token", list)
    server.shutdown()
    server.server_close()
    reader = DcgmExporter(server.url)
    reader.fetch()
    assert reader.read(0, "GPU-0") == {}
    assert "has no profiling counters" in caplog.text


def test_values_that_are_no_numbers_are_left_out() -> None:
    assert parsed('DCGM_FI_PROF_SM_ACTIVE{gpu="0"} NaN\nDCGM_FI_PROF_DRAM_ACTIVE{gpu="0"} 0.5\n') == {
        "0": {"memory_bandwidth_used": 0.5}
    }
