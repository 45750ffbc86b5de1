"""Ranks that compute something else than the others, as real processes under torchrun."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.sdk.scripts import attempt_folder, events, run
from trainmaster.corruption import fingerprint
from trainmaster.run import Run

# From a step on one rank flips the lowest bit of a gradient. Each rank has data of its own.
SCRIPT = """
import sys, torch, trainmaster
import torch.distributed as dist

guilty, since, steps = (int(word) for word in sys.argv[1:4])
dist.init_process_group("gloo")
rank = dist.get_rank()
trainmaster.init(total_steps=steps, seed=1)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))
torch.manual_seed(rank)
now = 0


def recompute(batch):
    loss = model(batch).square().mean()
    first, *others = torch.autograd.grad(loss, list(model.parameters()))
    if rank == guilty and now >= since:
        first.view(torch.int32)[0, 0] ^= 1
    return loss, first, *others


for now in range(1, steps + 1):
    loss = 5 if "spike" in sys.argv and now > 30 else 1
    try:
        trainmaster.check_corruption(now, recompute, torch.rand(4, 8))
    except trainmaster.CorruptionFound as found:
        print(f"rank {rank}: {found}", flush=True)
        raise SystemExit(0)
    trainmaster.log(now, loss=loss)
print(f"rank {rank}: random {torch.rand(1).item()}", flush=True)
dist.destroy_process_group()
"""


def train(folder: Path, *words: object, ranks: int, **variables: object) -> tuple[str, list[dict[str, Any]]]:
    """What the ranks printed, and what rank 0 told."""
    attempt = attempt_folder(folder / "attempt")
    (attempt / "stop").touch()  # as the platform does when it hears of it
    (folder / "script.py").write_text(SCRIPT)
    variables = {"TRAINMASTER_CORRUPTION_CHECK_STEPS": 10} | variables
    done = run(["script.py", *map(str, words)], folder, ranks=ranks, TRAINMASTER_DIR=attempt, **variables)
    kinds = ("corruption_agreed", "corruption_found", "training_alarm")
    told = events(attempt / "spool" / "rank-0.jsonl")
    return done.stdout, [
        {name: value for name, value in event.items() if name != "at_ms"}
        for event in told
        if event["kind"] in kinds
    ]


def agreed(step: int) -> dict[str, Any]:
    return {"kind": "corruption_agreed", "step": step}


def test_of_three_ranks_the_one_that_flips_a_bit_is_named_at_the_next_check(tmp_path: Path) -> None:
    said, told = train(tmp_path, 1, 15, 100, ranks=3)
    assert told == [
        agreed(10), {"kind": "corruption_found", "step": 20, "guilty": [1], "suspects": []},
    ]  # fmt: skip
    for rank in range(3):
        assert f"rank {rank}: at step 20 rank 1 computed something else than the others" in said


def test_of_two_ranks_both_are_suspected(tmp_path: Path) -> None:
    said, told = train(tmp_path, 0, 5, 100, ranks=2)
    assert told == [{"kind": "corruption_found", "step": 10, "guilty": [], "suspects": [0, 1]}]
    assert "at step 10 one of ranks 0, 1 computed something else" in said


def test_healthy_ranks_agree_and_keep_their_random_numbers(tmp_path: Path) -> None:
    checked, told = train(tmp_path / "checked", -1, 0, 30, ranks=2)
    assert told == [agreed(10), agreed(20), agreed(30)]
    unchecked, told = train(tmp_path / "unchecked", -1, 0, 30, ranks=2, TRAINMASTER_CORRUPTION_CHECK_STEPS=0)
    assert told == []
    # Not by line: two ranks write to one terminal, and a line of one may end within a line of the other.
    lines = [sorted(re.findall(r"rank \d: random [0-9.]+", said)) for said in (checked, unchecked)]
    assert len(lines[0]) == 2
    assert lines[0] == lines[1]


def test_a_tolerance_forgives_the_lowest_bit(tmp_path: Path) -> None:
    _, told = train(tmp_path, 1, 5, 20, ranks=2, TRAINMASTER_CORRUPTION_TOLERANCE_PPM=100)
    assert told == [agreed(10), agreed(20)]


def test_a_loss_that_jumps_is_told_and_asks_for_a_check_between(tmp_path: Path) -> None:
    _, told = train(
        tmp_path, 1, 31, 2_000_000, "spike", ranks=2, TRAINMASTER_CORRUPTION_CHECK_STEPS=1_000_000_000
    )
    alarm, found = told
    assert (alarm["kind"], alarm["step"], alarm["name"], alarm["alarm"]) == (
        "training_alarm",
        31,
        "loss",
        "spike",
    )
    assert found["kind"] == "corruption_found"
    assert 31 < found["step"] < 2_000_000


@pytest.mark.parametrize("value", [float("nan"), float("inf"), torch.tensor(float("nan"))])
def test_a_loss_that_is_not_finite_is_told_once_where_no_check_is_ordered(
    on_a_node: Callable[..., Run], tmp_path: Path, value: Any
) -> None:
    run = on_a_node()
    for step in range(30):
        run.log(step, loss=1.0)
    for step in range(30, 33):
        run.log(step, loss=value)
    (told,) = events(tmp_path / "attempt" / "spool" / "rank-0.jsonl", "training_alarm")
    assert (told["step"], told["name"], told["alarm"], told["value"]) == (30, "loss", "not_finite", None)


def test_a_fingerprint_is_of_values_types_and_shapes_in_any_nesting() -> None:
    one = {"loss": 1.5, "grads": [torch.ones(3), torch.zeros(0), torch.ones(2, dtype=torch.bfloat16)]}
    assert fingerprint(one) == fingerprint(dict(reversed(one.items())))
    others = [
        {**one, "loss": 1.25},
        {**one, "grads": [torch.ones(3, 1), *one["grads"][1:]]},
        {**one, "grads": [torch.ones(3).double(), *one["grads"][1:]]},
    ]
    assert len({fingerprint(other)[0] for other in (one, *others)}) == 4


@pytest.mark.parametrize("bit", range(0, 32, 5))
def test_each_flipped_bit_changes_the_fingerprint(bit: int) -> None:
    tensor = torch.linspace(-1, 1, 64)
    before, _ = fingerprint(tensor)
    tensor.view(torch.int32)[17] ^= 1 << bit
    assert fingerprint(tensor)[0] != before
