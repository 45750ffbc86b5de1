from __future__ import annotations

import json

from click.testing import CliRunner

from benchmarks.distribution_sim import main

SMALL = ["--workers", "50", "--bytes", "20000000000"]


def lines(*arguments: str) -> list[dict[str, float]]:
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    return [json.loads(line) for line in result.output.splitlines()]


def test_a_line_for_each_strategy_with_what_they_are_compared_by() -> None:
    found = {line["strategy"]: line for line in lines(*SMALL, "--racks", "5", "--strategy", "all")}
    assert set(found) == {"mesh", "mesh_rack_blind", "chain", "pipelines", "binary_tree", "sequential"}
    for line in found.values():
        assert line["ratio"] >= 1
        assert line.keys() >= {"workers", "time_s", "bound_s", "egress_copies", "healthy_ratio", "slow_ratio"}
    assert found["mesh"]["ratio"] <= 1.03
    assert found["mesh"]["cross_rack_copies"] <= 0.2 * found["mesh_rack_blind"]["cross_rack_copies"]


def test_the_same_seed_draws_the_same_trouble() -> None:
    trouble = [*SMALL, "--fail-fraction", "0.1", "--slow-fraction", "0.1"]
    first, again, other = (lines(*trouble, "--seed", seed)[0] for seed in ("3", "3", "4"))
    for line in (first, again):
        del line["cpu_s"], line["plan_s"]
    assert first == again
    assert first["time_s"] != other["time_s"]
    assert (first["failed"], first["slow"]) == (5, 5)
