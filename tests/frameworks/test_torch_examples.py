"""The examples that need PyTorch alone: each trains over ranks, saves, and goes on from its checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from platform_core.jobs.parallel import Parallel
from tests.frameworks.gangs import Gang, losses

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("example", "slots"),
    [("ddp", 2), ("fsdp", 2), ("hsdp", 4), ("tensor_parallel", 2), ("pipeline", 2), ("pipeline", 1)],
)
def test_a_resumed_run_goes_on_as_the_uninterrupted_one(example: str, slots: int, tmp_path: Path) -> None:
    whole = Gang(example, tmp_path / "whole", nodes=1, slots=slots)
    said = losses(whole.run())
    assert sorted(said) == [1, 2, 3, 4]
    assert said[4] < said[1]
    again = Gang(example, tmp_path / "again", nodes=1, slots=slots)
    assert losses(again.run(whole, 2)) == pytest.approx({step: said[step] for step in (3, 4)})


def test_three_dimensions_train_as_one_process_does(tmp_path: Path) -> None:
    """FSDP2 x TP (with sequence parallel) x PP, 2 x 2 x 2, to one process: the same losses to 1e-4 of their value."""
    spread = Gang("gpt_3d", tmp_path / "spread", nodes=1, slots=8, steps=3)
    alone = Gang("gpt_3d", tmp_path / "alone", nodes=1, slots=1, steps=3, parallel=Parallel(dp=1))
    expected = losses(alone.run())
    assert sorted(expected) == [1, 2, 3]
    assert expected[3] < expected[1]
    assert losses(spread.run()) == pytest.approx(expected, rel=1e-4)
