from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from platform_core.experiments.run_names import Named, distinct_names


def test_a_name_that_nobody_shares_stays():
    assert distinct_names([Named("1", "quick"), Named("2", "slow")]) == {"1": "quick", "2": "slow"}


def test_clones_are_named_by_the_parameter_that_tells_them_apart():
    clones = [Named(str(place), "clone", {"lr": lr, "width": 32}) for place, lr in enumerate((0.1, 0.01))]
    assert list(distinct_names(clones).values()) == ["clone · lr=0.1", "clone · lr=0.01"]


def test_two_parameters_are_named_where_one_is_not_enough():
    clones = [
        Named(f"{lr}{width}", "clone", {"lr": lr, "width": width}) for lr in (0.1, 0.2) for width in (8, 16)
    ]
    assert distinct_names(clones)["0.116"] == "clone · lr=0.1, width=16"


def test_equal_runs_are_named_by_the_end_of_their_ids():
    runs = [Named("aa-12345678", "x"), Named("bb-92345678", "x")]
    assert list(distinct_names(runs).values()) == ["x · 12345678", "x · 92345678"]


RUNS = st.lists(
    st.builds(
        Named,
        st.uuids().map(str),
        st.sampled_from(["a", "b", ""]),
        st.dictionaries(st.just("lr"), st.integers(0, 3)),
    ),
    unique_by=lambda run: run.id,
    max_size=12,
)


@given(RUNS)
def test_no_two_runs_have_one_name(runs: list[Named]):
    names = distinct_names(runs)
    assert len(set(names.values())) == len(runs) == len(names)
