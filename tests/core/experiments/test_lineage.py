"""What clients and scripts say of a run is checked once, whatever it is."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.errors import TrainmasterError
from platform_core.experiments import lineage

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(
    ["git_diff", "git_commit", "reported_packages", "a b", "", "seed", "params", "packages", "python"]
)


@given(st.dictionaries(NAMES, VALUES))
def test_what_is_accepted_of_a_client_is_text_by_plain_names(given: dict[str, Any]) -> None:
    try:
        accepted = lineage.submitted(given)
    except TrainmasterError:
        return
    assert accepted.keys() == given.keys()
    assert all(isinstance(value, str) for value in accepted.values())
    assert not any(name.startswith("reported_") for name in accepted)


@given(st.dictionaries(NAMES, VALUES))
def test_what_a_script_reports_fits_or_is_left_out_with_a_reason(given: dict[str, Any]) -> None:
    parameters, made_of, problems = lineage.reported(given)
    json.dumps([parameters, made_of], allow_nan=False).encode("utf-8", "strict")
    assert isinstance(made_of.get("reported_packages", {}), dict)
    if isinstance(given.get("packages"), list | int) and given["packages"] is not None:
        assert any(problem.startswith("packages") for problem in problems)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"reported_packages": 5}, "no name of a field"),
        ({"git_diff": 5}, "git_diff is int; it must be text"),
        ({"git_diff": "x" * (lineage.MAX_BYTES + 1)}, "the limits are 50 fields and 1 MiB"),
        ({f"field_{n}": "" for n in range(51)}, "51 fields"),
    ],
)
def test_a_refusal_says_what_is_wrong_with_the_lineage(given: dict[str, Any], why: str) -> None:
    with pytest.raises(TrainmasterError, match=why):
        lineage.submitted(given)


def test_usual_reports_are_kept_whole() -> None:
    said = {
        "params": {"lr": 0.1, "betas": [0.9, 0.99], "model": {"layers": 2}},
        "packages": {"torch": "2.13"},
        "seed": 1,
    }
    parameters, made_of, problems = lineage.reported(said)
    assert (parameters, problems) == (said["params"], [])
    assert made_of == {"reported_packages": {"torch": "2.13"}, "reported_seed": 1}
