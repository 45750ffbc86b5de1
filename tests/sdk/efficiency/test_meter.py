"""What the SDK measures of a loop without being asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import torch
import torch._dynamo
from torch.utils.data import DataLoader, TensorDataset

from tests.sdk.scripts import attempt_folder, events, run
from trainmaster.efficiency import hooks
from trainmaster.efficiency.meter import COUNTED_FROM_STEP, EVERY_SECONDS, EVERY_STEPS, LONGEST_SECONDS, Meter
from trainmaster.run import Run


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Loop:
    """A loop whose steps take what a test says."""

    def __init__(self, rank: int = 0, world_size: int = 1) -> None:
        self.clock, self.told, self.step = Clock(), list[Mapping[str, float]](), 0
        self.meter = Meter(rank, world_size, self.told.append, self.clock)
        self.meter.step(0)

    def steps(self, count: int, seconds: float, each: Callable[[], object] = lambda: None) -> None:
        for _ in range(count):
            each()
            self.step += 1
            self.clock.now += seconds
            self.meter.step(self.step)


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    hooks._meter = None
    if loop.meter._count is not None:  # of a step that did not end
        loop.meter._count.end()


def test_a_window_of_some_seconds_becomes_one_line(loop: Loop) -> None:
    loop.meter.expect(1024, None)
    loop.steps(10, EVERY_SECONDS / 10)
    [values] = loop.told
    assert values["ranks/0/step_seconds"] == pytest.approx(0.5)
    assert values["ranks/0/tokens_per_second"] == pytest.approx(2048)
    assert values["ranks/0/data_share"] == 0
    assert values["ranks/0/memory_bytes"] > 1e6
    assert "ranks/0/mfu" not in values  # of a CPU no peak is known


def test_few_long_steps_are_waited_for_and_not_for_ever(loop: Loop) -> None:
    loop.steps(EVERY_STEPS - 1, EVERY_SECONDS)
    assert not loop.told
    loop.steps(1, EVERY_SECONDS)
    assert len(loop.told) == 1
    loop.steps(1, LONGEST_SECONDS)
    assert loop.told[1]["ranks/0/step_seconds"] == LONGEST_SECONDS


def test_calls_for_one_step_and_for_earlier_ones_say_nothing_new(loop: Loop) -> None:
    loop.steps(10, EVERY_SECONDS / 20, lambda: [loop.meter.step(number) for number in (loop.step, 1)])
    loop.steps(10, EVERY_SECONDS / 20)
    assert loop.told[0]["ranks/0/step_seconds"] == pytest.approx(EVERY_SECONDS / 20)


def test_each_rank_of_a_large_job_reports_less_often() -> None:
    loop = Loop(rank=1023, world_size=1024)
    loop.steps(600, 0.1)
    assert not loop.told
    loop.steps(60, 0.1)
    assert [{name.split("/")[1] for name in values} for values in loop.told] == [{"1023"}]


def test_saving_and_evaluating_are_no_part_of_a_step(loop: Loop) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))

    def evaluate_and_save() -> None:
        model.eval()
        loop.clock.now += 0.25
        model.train()
        with loop.meter.measuring("checkpoint"):
            loop.clock.now += 0.25

    loop.steps(5, 0.5, evaluate_and_save)
    [values] = loop.told
    assert values["ranks/0/step_seconds"] == pytest.approx(0.5)
    assert (values["ranks/0/evaluation_share"], values["ranks/0/checkpoint_share"]) == (0.25, 0.25)


def test_a_frozen_teacher_evaluates_nothing(loop: Loop) -> None:
    torch.nn.Linear(2, 2).eval()
    loop.steps(5, 1)
    assert loop.told[0]["ranks/0/evaluation_share"] == 0


def test_a_loader_is_timed_and_its_samples_are_counted(loop: Loop) -> None:
    batches = iter(DataLoader(TensorDataset(torch.zeros(80, 3), torch.zeros(80)), batch_size=8))
    loop.steps(10, 0.5, lambda: next(batches))
    [values] = loop.told
    assert values["ranks/0/samples_per_second"] == pytest.approx(16)
    assert values["ranks/0/data_share"] > 0


def test_what_an_evaluation_reads_is_no_training_data(loop: Loop) -> None:
    model, batches = torch.nn.Linear(3, 2), iter(DataLoader(TensorDataset(torch.zeros(80, 3)), batch_size=8))

    def evaluate() -> None:
        model.eval()
        next(batches)
        model.train()

    loop.steps(10, 0.5, evaluate)
    assert "ranks/0/samples_per_second" not in loop.told[0]


def test_the_flops_of_a_step_are_counted_once(loop: Loop) -> None:
    layer, given = torch.nn.Linear(16, 32, bias=False), torch.ones(4, 16)
    loop.steps(10, 0.5, lambda: layer(given).sum().backward())
    forward = 2 * 4 * 16 * 32
    assert loop.told[0]["ranks/0/flops_per_second"] == pytest.approx(
        2 * forward / 0.5
    )  # and as many backward


def test_given_flops_are_shared_by_the_ranks() -> None:
    loop = Loop(rank=1, world_size=2)
    loop.meter.expect(None, 4e12)
    loop.steps(10, 0.5)
    assert loop.told[0]["ranks/1/flops_per_second"] == pytest.approx(4e12)


def test_the_count_leaves_the_numbers_as_they_are() -> None:
    def trained(counting: bool) -> list[float]:
        torch.manual_seed(5)
        layer = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.LayerNorm(8))
        optimizer = torch.optim.AdamW(layer.parameters())
        losses = list[float]()

        def step() -> None:
            optimizer.zero_grad()
            loss = layer(torch.ones(4, 8)).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())

        if counting:
            loop = Loop()
            loop.steps(10, 0.5, step)
            assert "ranks/0/flops_per_second" in loop.told[0]
        else:
            for _ in range(10):
                step()
        return losses

    assert trained(counting=True) == trained(counting=False)


def test_a_step_that_evaluates_is_not_counted(loop: Loop) -> None:
    layer, given = torch.nn.Linear(16, 32, bias=False), torch.ones(4, 16)

    def step() -> None:
        layer(given).sum().backward()
        if loop.step < 4:
            layer.eval()
            layer(given)
            layer.train()

    loop.steps(10, 0.5, step)
    assert loop.told[0]["ranks/0/flops_per_second"] == pytest.approx(2 * 2 * 4 * 16 * 32 / 0.5)


@pytest.fixture
def counted_step(loop: Loop) -> Iterator[Loop]:
    """A loop in the middle of a step whose FLOPs are counted."""
    torch._dynamo.utils.counters.clear()
    loop.steps(COUNTED_FROM_STEP, 0.5)
    assert loop.meter._count is not None
    yield loop
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()


@pytest.mark.parametrize("strict", [False, True])
def test_a_model_is_exported_with_a_variable_size_while_a_step_is_counted(
    counted_step: Loop, strict: bool
) -> None:
    model, sizes = torch.nn.Linear(3, 2).eval(), ({0: torch.export.Dim("batch", min=1, max=64)},)
    program = torch.export.export(model, (torch.zeros(2, 3),), dynamic_shapes=sizes, strict=strict)
    assert program.module()(torch.ones(5, 3)).shape == (5, 2)
    counted_step.steps(1, 0.5)
    assert not counted_step.meter._counted.total


def test_a_model_that_is_compiled_while_a_step_is_counted_leaves_no_wrong_count(counted_step: Loop) -> None:
    model = torch.compile(torch.nn.Linear(3, 2), backend="eager", fullgraph=True)
    counted_step.steps(8, 0.5, lambda: model(torch.ones(4, 3)).sum().backward())
    assert not counted_step.meter._counted.total


def test_an_operator_of_a_higher_order_runs_while_a_step_is_counted(counted_step: Loop) -> None:
    given = torch.ones(3, 3)
    torch.cond(given.sum() > 0, lambda x: x @ x, lambda x: x + 1, (given,))
    counted_step.steps(1, 0.5)
    assert not counted_step.meter._counted.total


def test_a_model_changes_its_mode_in_compiled_code(loop: Loop) -> None:
    model = torch.nn.Linear(3, 2)

    @torch.compile(backend="eager", fullgraph=True)
    def evaluated(given: torch.Tensor) -> torch.Tensor:
        model.eval()
        out: torch.Tensor = model(given)
        model.train()
        return out

    assert evaluated(torch.ones(4, 3)).shape == (4, 2)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()


def test_ranks_other_than_0_report_too(on_a_node: Callable[..., Run], tmp_path: Path) -> None:
    run = on_a_node(rank=1, world_size=2)
    clock = Clock()
    run.measures.meter._clock = clock
    for step in range(12):
        run.log(step, {"loss": 1.0})
        clock.now += 0.5
    spool = events(tmp_path / "attempt" / "spool" / "rank-1.jsonl")
    assert [event["kind"] for event in spool] == ["system"]
    assert spool[0]["values"]["ranks/1/step_seconds"] == 0.5
    assert spool[0]["step"] == spool[0]["at_ms"] // 1000


SCRIPT = """
import time, trainmaster
for step in range(120):
    with trainmaster.measuring("data"):
        time.sleep(0.05)
    trainmaster.log(step, loss=1.0)
"""


def test_a_script_without_torch_is_measured(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    attempt = attempt_folder(tmp_path / "attempt")
    run(["train.py"], tmp_path, TRAINMASTER_DIR=attempt)
    [first, *_] = events(attempt / "spool" / "rank-0.jsonl", "system")
    assert first["values"]["ranks/0/data_share"] > 0.5
