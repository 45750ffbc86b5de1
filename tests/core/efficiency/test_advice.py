"""Each rule speaks at its threshold and is silent below it."""

from dataclasses import replace
from typing import Any

import pytest

from platform_core.efficiency.advice import RULES, Facts, advise
from platform_core.efficiency.ranks import Breakdown, Straggler
from platform_core.units import GIB

WELL = Breakdown(compute=0.9, data=0.02, communication=0.05, checkpoint=0.02, evaluation=0.01)
GOOD = Facts(
    "h100-80gb", WELL, (0.95, 0.96), memory_used=0.8, memory_bytes=80 * GIB, cpu_use=0.4, temperature=60.0,
    precision_bits=16, idle=0.02, kernel_us=90.0, synchronising=0.01,
)  # fmt: skip


def codes(**changes: Any) -> list[str]:
    parts = {name: value for name, value in changes.items() if name in Breakdown.__dataclass_fields__}
    rest = {name: value for name, value in changes.items() if name not in parts}
    facts = replace(GOOD, breakdown=replace(WELL, **parts), **rest)
    return [advice.code for advice in advise(facts)]


def test_a_run_that_does_well_is_left_alone() -> None:
    assert codes() == []
    assert advise(Facts("cpu", Breakdown(1.0, 0.0, None, 0.0, 0.0))) == ()


@pytest.mark.parametrize(
    ("code", "at", "below"),
    [
        ("data_starved", {"data": 0.10}, {"data": 0.09}),
        ("cpu_bound_preprocessing", {"data": 0.10, "cpu_use": 0.9}, {"data": 0.09, "cpu_use": 0.9}),
        ("communication_bound", {"communication": 0.20}, {"communication": 0.19}),
        ("checkpoint_bound", {"checkpoint": 0.05}, {"checkpoint": 0.04}),
        ("evaluation_bound", {"evaluation": 0.20}, {"evaluation": 0.19}),
        ("imbalance", {"stragglers": (Straggler(3, "n1", 1.3),)}, {"stragglers": ()}),
        ("launch_bound", {"idle": 0.2, "kernel_us": 20.0}, {"idle": 0.2, "kernel_us": 21.0}),
        ("synchronisation", {"idle": 0.15, "synchronising": 0.1}, {"idle": 0.15, "synchronising": 0.09}),
        ("small_batch", {"utilisation": (0.5, 0.6), "memory_used": 0.45}, {"memory_used": 0.45}),
        ("memory_unused", {"memory_used": 0.39}, {"memory_used": 0.40}),
        ("idle_gpus", {"utilisation": (0.95, 0.04)}, {"utilisation": (0.95, 0.05), "memory_used": 0.8}),
        ("wrong_precision", {"precision_bits": 32}, {"precision_bits": 16}),
        ("wrong_precision", {"precision_bits": 19}, {"precision_bits": 8}),
        ("thermal_throttling", {"temperature": 85.0}, {"temperature": 84.0}),
    ],
)  # fmt: skip
def test_each_rule_has_its_threshold(code: str, at: dict[str, Any], below: dict[str, Any]) -> None:
    assert codes(**at) == [code]
    assert code not in codes(**below)


def test_processors_that_are_busy_are_another_cause_than_a_slow_loader() -> None:
    assert codes(data=0.3, cpu_use=0.89) == ["data_starved"]
    assert codes(data=0.3, cpu_use=None) == ["data_starved"]
    assert codes(data=0.3, cpu_use=0.95) == ["cpu_bound_preprocessing"]


def test_waiting_for_one_rank_is_no_matter_of_the_network() -> None:
    assert codes(communication=0.4, stragglers=(Straggler(3, "", 1.5),)) == ["imbalance"]


def test_what_gains_most_comes_first_and_what_has_no_number_last() -> None:
    found = codes(data=0.15, checkpoint=0.3, temperature=90.0)
    assert found == ["checkpoint_bound", "data_starved", "thermal_throttling"]


def test_slots_that_all_do_nothing_are_no_imbalance_of_slots() -> None:
    assert "idle_gpus" not in codes(utilisation=(0.01, 0.02))


def test_every_sentence_has_its_numbers_and_a_remedy() -> None:
    every = replace(
        GOOD, breakdown=Breakdown(0.1, 0.3, 0.3, 0.3, 0.3), utilisation=(0.3, 0.01), memory_used=0.1, temperature=91.0,
        precision_bits=32, stragglers=(Straggler(1, "n1", 2.0),), idle=0.5, kernel_us=5.0, synchronising=0.4,
    )  # fmt: skip
    spoken = {advice.code for facts in (every, replace(every, cpu_use=0.99)) for advice in advise(facts)}
    found = [
        advice for rule in RULES for facts in (every, replace(every, cpu_use=0.99)) if (advice := rule(facts))
    ]
    assert {advice.code for advice in found} == spoken
    assert all(any(letter.isdigit() for letter in advice.evidence) for advice in found)
    assert all(advice.remedy.endswith(".") and advice.evidence.endswith(".") for advice in found)
    assert all(advice.gain is None or 0 <= advice.gain <= 1 for advice in found)
