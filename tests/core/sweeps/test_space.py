"""The search space: what is read, what is refused, what is drawn, and the grid."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.jobs.spec import SpecError
from platform_core.sweeps import spec as specification
from platform_core.sweeps.space import draw, grid, why_not
from tests.core.sweeps.situations import FIELDS, spec

SPACE = {
    "lr": {"type": "log_uniform", "low": 1e-4, "high": 1e-1, "points": 3},
    "width": {"type": "integer", "low": 16, "high": 64, "step": 16},
    "layers": {"type": "log_integer", "low": 1, "high": 8},
    "dropout": {"type": "uniform", "low": 0, "high": 0.5, "step": 0.1},
    "optimizer": ["adam", "sgd"],
    "momentum": {"type": "uniform", "low": 0, "high": 0.9, "points": 2, "when": {"optimizer": "sgd"}},
}


@given(st.lists(st.floats(0, 1, exclude_max=True), min_size=6, max_size=6))
def test_whatever_is_drawn_is_a_setting_of_the_space(chances: list[float]) -> None:
    space = spec(space=SPACE).space
    parameters = draw(space, iter(chances).__next__)
    assert why_not(space, parameters) == ""
    assert ("momentum" in parameters) is (parameters["optimizer"] == "sgd")


def test_what_is_written_is_read_again_the_same() -> None:
    known = spec(space=SPACE)
    kept = json.loads(json.dumps(specification.as_mapping(known)))
    assert specification.parse(kept) == specification.load(kept) == known


def test_a_grid_has_each_combination_once_and_no_value_of_what_does_not_exist() -> None:
    settings = list(grid(spec(space={name: SPACE[name] for name in ("lr", "optimizer", "momentum")}).space))
    assert len(settings) == 3 * (1 + 2)
    assert {"lr": 1e-4, "optimizer": "adam"} in settings
    assert sum("momentum" in setting for setting in settings) == 6


@pytest.mark.parametrize(
    ("space", "field", "sentence"),
    [
        ({}, "space", "space is empty"),
        ({"lr": 3}, "space.lr", "space.lr is 3; describe it"),
        ({"lr": {"type": "unifrm"}}, "space.lr.type", "it must be one of uniform, log_uniform"),
        ({"lr": {"type": "uniform", "low": 1}}, "space.lr.high", "space.lr.high is missing; give a number"),
        ({"lr": {"type": "uniform", "low": 2, "high": 1}}, "space.lr.high", "not more than low 2"),
        ({"lr": {"type": "log_uniform", "low": 0, "high": 1}}, "space.lr.low", "begins at more than 0"),
        ({"n": {"type": "integer", "low": 0.5, "high": 2}}, "space.n.low", "must be a whole number, or the type"),
        ({"n": {"type": "uniform", "low": 0, "high": 1, "when": {"x": 1}}}, "space.n.when", "names x, which is not"),
        ({"n": ["a", "a"]}, "space.n.values", "has a value twice"),
        ({"n": {"type": "uniform", "low": 0, "high": 1, "stp": 1}}, "space.n.stp", "did you mean step?"),
        (
            {"a": {"type": "choice", "values": [1], "when": {"b": 1}},
             "b": {"type": "choice", "values": [1], "when": {"a": 1}}},
            "space.a.when", "depends on itself in a circle: a, b",
        ),
    ],
)  # fmt: skip
def test_each_problem_has_its_place_and_a_remedy(space: dict[str, Any], field: str, sentence: str) -> None:
    with pytest.raises(SpecError) as refused:
        specification.parse({**FIELDS, "space": space})
    assert refused.value.code == "sweep_invalid"
    problems = {problem.field: problem.sentence for problem in refused.value.problems}
    assert sentence in problems[field]


def test_a_grid_asks_for_points_and_other_methods_for_trials() -> None:
    with pytest.raises(SpecError, match=r"space.lr.points is missing"):
        spec(method="grid", space={"lr": {"type": "uniform", "low": 0, "high": 1}})
    with pytest.raises(SpecError, match=r"budget.trials is missing; say how many settings random may try"):
        spec(budget={})


def test_a_parameter_cannot_be_fixed_and_searched() -> None:
    with pytest.raises(SpecError, match=r"job.hyperparameters.lr is fixed and also in the search space"):
        spec(job={"command": "train", "gpu_type": "cpu", "hyperparameters": {"lr": 1}})
