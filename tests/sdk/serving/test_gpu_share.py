"""A replica on a share of a GPU: torch is held to it, and what cannot be held is refused before it loads."""

from types import SimpleNamespace

import pytest
import torch

from agent.attempts.causes import cause_of
from platform_core.cluster.gpu_shares import OWN_BYTES
from platform_core.jobs.ends import EndReason
from platform_core.serving.runtimes import RuntimeName
from trainmaster.environment import replica_environment
from trainmaster.serving import gpu_share, vllm
from trainmaster.serving.runtimes.custom import LoadError

TOTAL = 80 << 30


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A GPU of 80 GiB; what torch was limited to."""
    found: list[float] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(total_memory=TOTAL))
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", found.append)
    return found


def test_torch_gets_its_share_less_what_cuda_takes(limits: list[float]) -> None:
    gpu_share.hold(0.25, RuntimeName.TORCHSCRIPT)
    assert limits == [pytest.approx(0.25 - OWN_BYTES / TOTAL)]


def test_a_whole_gpu_has_no_limit(limits: list[float]) -> None:
    gpu_share.hold(1.0, RuntimeName.ONNX)
    assert limits == []


@pytest.mark.usefixtures("limits")
def test_a_runtime_that_would_not_keep_to_it_is_refused() -> None:
    with pytest.raises(LoadError, match="onnx does not hold to a share"):
        gpu_share.hold(0.5, RuntimeName.ONNX)


def test_a_share_without_a_gpu_is_refused() -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(LoadError, match="torch finds none"):
        gpu_share.hold(0.5, RuntimeName.EXPORTED)


@pytest.mark.usefixtures("limits")
def test_a_model_beyond_its_share_is_told_what_it_may_take() -> None:
    error = torch.OutOfMemoryError(
        "CUDA out of memory. Tried to allocate 40.00 GiB. GPU 0 has a total capacity of 80.00 GiB of which 78.00 GiB is"
        " free."
    )
    sentence = gpu_share.refusal(0.25, error)
    assert "may take 19.4 GiB, its share of a GPU. Tried to allocate 40.00 GiB. Serve it" in sentence
    assert "78.00 GiB is free" not in sentence
    cause = cause_of(f"OutOfMemoryError: {sentence}")
    assert cause is not None
    assert cause.end is EndReason.OUT_OF_MEMORY_GPU


def test_other_errors_and_whole_gpus_are_left_to_torch() -> None:
    assert gpu_share.refusal(0.25, RuntimeError("CUDA error: device-side assert triggered")) == ""
    assert gpu_share.refusal(1.0, torch.OutOfMemoryError("CUDA out of memory. Tried")) == ""


@pytest.mark.parametrize(
    ("given", "share"), [("0.25", 0.25), ("1", 1.0), ("", 1.0), ("7", 1.0), ("much", 1.0)]
)
def test_the_share_comes_from_the_environment(given: str, share: float) -> None:
    variables = {"TRAINMASTER_MODEL": "/m", "TRAINMASTER_GPU_MEMORY_SHARE": given}
    assert replica_environment(variables).gpu_share == share


def test_vllm_plans_within_its_share() -> None:
    from pathlib import Path

    assert "--gpu-memory-utilization" not in vllm.command(Path("m"), "chat", 1, 80)
    assert vllm.command(Path("m"), "chat", 1, 80, 0.25)[-2:] == ("--gpu-memory-utilization", "0.25")
