"""Roles in a job's description."""

from __future__ import annotations

import pytest

from platform_core.jobs.roles import Role
from platform_core.jobs.spec import SpecError, Strategy, as_mapping, given, load, parse
from tests.core.jobs.situations import MINIMAL


def problems(**fields: object) -> dict[str, str]:
    try:
        parse({**MINIMAL, **fields})
    except SpecError as error:
        return {problem.field: problem.sentence for problem in error.problems}
    return {}


def test_roles_are_numbers_of_processes_with_commands_of_their_own() -> None:
    spec = parse(
        {
            **MINIMAL,
            "num_gpus": 5,
            "roles": {"worker": 3, "ps": "1 python ps.py", "eval": {"count": 1, "command": "e.py"}},
        }
    )
    assert spec.strategy is Strategy.ROLES
    assert spec.roles == (Role("eval", 1, ("e.py",)), Role("ps", 1, ("python", "ps.py")), Role("worker", 3))
    assert as_mapping(spec)["roles"] == {"eval": "1 e.py", "ps": "1 python ps.py", "worker": 3}
    assert load(as_mapping(spec)) == spec
    assert given(as_mapping(spec))["roles"] == as_mapping(spec)["roles"]


def test_the_roles_must_take_the_slots_of_the_gang() -> None:
    sentence = problems(num_gpus=3, roles={"ps": 1, "worker": 3})["roles"]
    assert sentence == "roles ask for 4 slots, one for each process, but num_gpus is 3; make them equal"
    assert "need all 4" in problems(num_gpus=4, min_gpus=2, roles={"ps": 1, "worker": 3})["min_gpus"]


def test_another_strategy_has_no_roles_and_roles_have_no_other_strategy() -> None:
    assert "must be roles" in problems(num_gpus=1, strategy="jax", roles={"worker": 1})["strategy"]
    assert "name the groups" in problems(strategy="roles")["roles"]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("ps", 0, "1 to 10,000"),
        ("ps", True, "number of its processes"),
        ("ps", "many", "number of its processes"),
        ("ps", "1 'python", "number of its processes"),
        ("ps", {"count": 1, "image": "x"}, "number of its processes"),
        ("ps", None, "number of its processes"),
        ("ps", "1 \ud800", "number of its processes"),
        ("P S", 1, "cannot name a role"),
    ],
)
def test_a_role_that_cannot_be_read_is_refused_with_the_remedy(name: str, value: object, words: str) -> None:
    assert words in problems(roles={name: value})[f"roles.{name}"]


def test_too_many_roles_are_refused() -> None:
    assert "the limit is 20" in problems(num_gpus=30, roles={f"r{i}": 1 for i in range(30)})["roles"]
