"""The examples of frameworks in an environment of their own: each trains, saves, and goes on as it would have."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.frameworks.gangs import Gang, losses
from tools import frameworks_venv

pytestmark = [pytest.mark.slow, pytest.mark.frameworks, pytest.mark.timeout(520)]


@pytest.fixture(scope="session")
def python() -> str:
    return str(frameworks_venv.ensure())


@pytest.mark.parametrize(
    ("example", "nodes", "slots"),
    [
        ("huggingface_trainer", 1, 2),
        ("accelerate", 2, 1),
        ("lightning", 1, 2),
        ("deepspeed", 2, 1),
        ("tensorflow", 2, 1),
        ("jax", 2, 1),
    ],
)
def test_a_resumed_run_goes_on_as_the_uninterrupted_one(
    example: str, nodes: int, slots: int, python: str, tmp_path: Path
) -> None:
    whole = Gang(example, tmp_path / "whole", nodes, slots, python, seconds=250)
    said = losses(whole.run())
    assert sorted(said) == [1, 2, 3, 4]
    again = Gang(example, tmp_path / "again", nodes, slots, python, seconds=250)
    resumed = losses(again.run(whole, 2))
    assert resumed == pytest.approx({step: said[step] for step in (3, 4)}, rel=1e-4)
