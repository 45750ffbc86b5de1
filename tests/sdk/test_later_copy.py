"""A state that is copied beside the loop, until the next step of the optimizer."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from trainmaster.checkpoints import later, loading
from trainmaster.checkpoints.saving import CheckpointNotSaved, Request, Saver
from trainmaster.checkpoints.staging import Staging

LATER = Request(1, {}, copy="before_optimizer_step")


@pytest.fixture
def saver(tmp_path: Path) -> Saver:
    return Saver(
        tmp_path / "checkpoints", 3, lambda: 0, lambda path, description: None, lambda sentence: None
    )


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """No copy is made before it is set."""
    opened = threading.Event()
    fill = Staging.fill

    def held(staging: Staging, tensors: Any) -> list[Any]:
        opened.wait()
        return fill(staging, tensors)

    monkeypatch.setattr(Staging, "fill", held)
    yield opened
    opened.set()


def model() -> tuple[torch.nn.Linear, torch.optim.SGD]:
    layer = torch.nn.Linear(4, 4)
    layer(torch.ones(4)).sum().backward()
    return layer, torch.optim.SGD(layer.parameters(), lr=1.0)


def read(path: Path | None) -> Any:
    assert path is not None
    loaded = loading.load(loading.Source([path], print, go_back=False))
    assert loaded is not None
    return loaded.state


def test_the_next_step_of_the_optimizer_waits_for_the_copy(saver: Saver, gate: threading.Event) -> None:
    layer, optimizer = model()
    before = layer.weight.detach().clone()
    path = saver.save({"model": layer.state_dict()}, LATER)
    assert torch.equal(layer(torch.zeros(4)), layer.bias)  # the loop goes on, and reads
    stepping = threading.Thread(target=optimizer.step)
    stepping.start()
    assert torch.equal(layer.weight, before), "the step waits"
    gate.set()
    stepping.join()
    assert not torch.equal(layer.weight, before)
    saver.wait()
    assert torch.equal(read(path)["model"]["weight"], before)


def test_a_change_by_something_else_is_found(saver: Saver, gate: threading.Event) -> None:
    layer, _ = model()
    saver.save({"model": layer.state_dict()}, LATER)
    with torch.no_grad():
        layer.weight.mul_(2)
    gate.set()
    with pytest.raises(CheckpointNotSaved, match="changed before its copy was complete"):
        saver.wait()


def test_a_save_that_is_awaited_is_copied_at_once(saver: Saver) -> None:
    layer, _ = model()
    later.wait()
    for request in (
        Request(2, {}, blocking=True, copy="before_optimizer_step"),
        Request(3, {}, emergency=True, copy="before_optimizer_step"),
    ):
        path = saver.save({"model": layer.state_dict()}, request)
        assert later._pending is None
        saver.wait()
        assert torch.equal(read(path)["model"]["weight"], layer.weight)
