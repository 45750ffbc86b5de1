"""A checkpoint of CUDA tensors, saved and loaded."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from platform_core.node.description import SlotDescription
from trainmaster.environment import JobEnvironment
from trainmaster.run import Run
from trainmaster.setting import setting_of

pytestmark = pytest.mark.gpu


def test_what_was_on_the_gpu_comes_back_as_it_was(
    gpus: tuple[SlotDescription, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.chdir(tmp_path)

    def run(resume: str) -> Run:
        surroundings = JobEnvironment()
        return Run(
            surroundings, setting_of(surroundings, "train", resume), lambda: time.time_ns() // 1_000_000
        )

    torch.manual_seed(1)
    model = torch.nn.Linear(512, 512, device="cuda")
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(8, 512, device="cuda")).square().mean().backward()
    optimizer.step()
    first = run("")
    first.save_checkpoint({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, 7, {})
    expected = torch.randn(4, device="cuda")
    first.finish()  # the checkpoint is written

    loaded = run("auto").load_checkpoint()
    assert loaded is not None
    state, step = loaded
    assert step == 7
    assert torch.equal(torch.randn(4, device="cuda"), expected), "the random state of CUDA was not restored"
    again = torch.nn.Linear(512, 512, device="cuda")
    again.load_state_dict(state["model"])
    assert all(
        torch.equal(ours, theirs) for ours, theirs in zip(again.parameters(), model.parameters(), strict=True)
    )
    for key, values in optimizer.state_dict()["state"].items():
        for name, value in values.items():
            assert torch.equal(state["optimizer"]["state"][key][name].cpu(), value.cpu())
