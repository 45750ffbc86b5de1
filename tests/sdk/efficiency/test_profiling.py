"""A profile that is ordered while a script runs."""

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tests.sdk.scripts import events
from trainmaster.run import Run

Make = Callable[..., Run]


def order(
    tmp_path: Path, number: int, steps: int = 3, ranks: tuple[int, ...] = (0,), kind: str = "trace"
) -> None:
    """Beside those that are in the file."""
    file, new = tmp_path / "attempt" / "orders.json", tmp_path / "attempt" / "orders.new"
    before = json.loads(file.read_text())["profiles"] if file.exists() else []
    profile = {"number": number, "steps": steps, "ranks": ranks, "kind": kind}
    new.write_text(json.dumps({"save": 0, "profiles": [*before, profile]}))
    os.replace(new, file)


def train(run: Run, first: int, steps: int) -> None:
    layer = torch.nn.Linear(64, 64)
    for step in range(first, first + steps):
        run.measures._profiler._look_at = 0.0  # it looks twice a second
        layer(torch.ones(32, 64)).sum().backward()
        run.log(step, {"loss": 1.0})


def test_an_order_becomes_a_trace_a_table_and_shares(on_a_node: Make, tmp_path: Path) -> None:
    run = on_a_node()
    train(run, 1, 2)
    order(tmp_path, 1)
    train(run, 3, 6)
    spool = tmp_path / "attempt" / "spool" / "rank-0.jsonl"
    [artifact] = events(spool, "artifact")
    assert artifact["name"] == "profile-1-rank-0.json.gz"
    trace = json.loads(gzip.decompress((tmp_path / "attempt" / artifact["path"]).read_bytes()))
    assert any(event.get("name") == "aten::addmm" for event in trace["traceEvents"])
    [table] = events(spool, "value")
    assert (table["key"], table["type"], table["step"]) == ("profile/rank-0", "table", 6)
    names = [row[0] for row in table["document"]["rows"]]
    assert names[:2] == ["all: compute", "all: communication"]
    assert "aten::addmm" in names
    shares = [event["values"] for event in events(spool, "system")]
    assert {"ranks/0/communication_share": 0.0, "ranks/0/profile": 1.0} in shares  # beside those of the meter
    train(run, 9, 5)
    assert len(events(spool, "artifact")) == 1  # one order, one profile
    order(tmp_path, 2, steps=1)
    train(run, 20, 3)
    assert [event["name"] for event in events(spool, "artifact")][1] == "profile-2-rank-0.json.gz"


def test_orders_are_followed_one_after_another(on_a_node: Make, tmp_path: Path) -> None:
    run = on_a_node()
    order(tmp_path, 1, steps=2)
    order(tmp_path, 2, ranks=(1,))
    order(tmp_path, 3, steps=1, kind="memory")
    train(run, 1, 8)
    names = [event["name"] for event in events(tmp_path / "attempt" / "spool" / "rank-0.jsonl", "artifact")]
    assert names == ["profile-1-rank-0.json.gz", "memory-3-rank-0.json.gz"]


def test_other_ranks_go_on(on_a_node: Make, tmp_path: Path) -> None:
    run = on_a_node(rank=1, world_size=2)
    order(tmp_path, 1, ranks=(0,))
    train(run, 1, 6)
    assert not (tmp_path / "attempt" / "artifacts").exists()


def test_a_profile_that_fails_costs_a_sentence_and_not_the_training(on_a_node: Make, tmp_path: Path) -> None:
    run = on_a_node()
    (tmp_path / "attempt" / "artifacts").write_text("no folder")
    order(tmp_path, 1, steps=1)
    train(run, 1, 4)
    assert not events(tmp_path / "attempt" / "spool" / "rank-0.jsonl", "artifact")


def test_a_memory_snapshot_has_the_curve_of_the_allocations_and_a_table(
    on_a_node: Make, tmp_path: Path
) -> None:
    run = on_a_node()
    train(run, 1, 2)
    order(tmp_path, 1, kind="memory")
    train(run, 3, 6)
    spool = tmp_path / "attempt" / "spool" / "rank-0.jsonl"
    [artifact] = events(spool, "artifact")
    assert artifact["name"] == "memory-1-rank-0.json.gz"
    trace = json.loads(gzip.decompress((tmp_path / "attempt" / artifact["path"]).read_bytes()))
    assert any(event.get("name") == "[memory]" for event in trace["traceEvents"])
    [table] = events(spool, "value")
    assert table["key"] == "memory/rank-0"
    rows = {row[0]: row[2] for row in table["document"]["rows"]}
    assert rows["all: CPU at most"] >= rows["all: CPU at first"]


def test_a_flame_graph_names_the_function_that_takes_the_time(on_a_node: Make, tmp_path: Path) -> None:
    run = on_a_node()
    order(tmp_path, 1, steps=1, kind="flame")
    train(run, 1, 1)
    recorder = run.measures._profiler._recording
    assert recorder is not None
    recorder[1].least_seconds = 0.0
    spun = spin_until(recorder[1])
    train(run, 2, 2)
    spool = tmp_path / "attempt" / "spool" / "rank-0.jsonl"
    [artifact] = events(spool, "artifact")
    assert artifact["name"] == "flame-1-rank-0.folded.txt"
    lines = (tmp_path / "attempt" / artifact["path"]).read_text().splitlines()
    assert any(line.startswith("MainThread;") and ";spin_until (" in line for line in lines)
    assert spun > 0
    [table] = events(spool, "value")
    assert table["key"] == "flame/rank-0"


def spin_until(recorder: Any) -> int:
    """Works in this function until it was seen here."""
    turns = 0
    while not any(
        name.startswith("spin_until (") for stack in list(recorder._sampler._stacks) for name in stack
    ):
        turns += 1
    return turns


def test_an_order_of_an_unknown_kind_costs_a_sentence(on_a_node: Make, tmp_path: Path) -> None:
    run = on_a_node()
    order(tmp_path, 1, kind="x-ray")
    train(run, 1, 4)
    assert not (tmp_path / "attempt" / "artifacts").exists()
