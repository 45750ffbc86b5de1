"""What a job gets of its node: what it asks for, or the share of its slots."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from agent.attempts.preparation import NodeFacts, prepare
from agent.work_folder import WorkFolders
from tests.agent.launches import LAUNCH

GIB = 1 << 30
FACTS = NodeFacts("python", frozenset(), {}, {}, "", cpus_per_slot=12, memory_per_slot_bytes=100 * GIB)


@pytest.mark.parametrize(
    ("cpus", "memory", "has", "threads"),
    [
        (0, 0, (24, 200 * GIB), "12"),
        (3, 0, (6, 200 * GIB), "3"),
        (0, 7 * GIB, (24, 14 * GIB), "12"),
    ],
)
def test_a_job_gets_the_share_of_its_slots_of_what_it_does_not_name(
    tmp_path: Path, cpus: int, memory: int, has: tuple[int, int], threads: str
) -> None:
    launch = replace(LAUNCH, strategy="custom", slots=(0, 1), cpus_per_gpu=cpus, memory_per_gpu_bytes=memory)
    order = prepare(WorkFolders(tmp_path).of("att-share"), launch, FACTS, lambda *_: None, Event())
    assert (order.cpus, order.memory_bytes) == has
    assert order.environment["OMP_NUM_THREADS"] == threads
