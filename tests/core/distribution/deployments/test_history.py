"""What deployments have cost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.distribution.deployments.deployment import DeploymentState
from platform_core.distribution.deployments.history import Record, by_model, summarise, times_the_bound

S = DeploymentState


def record(model: str = "vision/bytelm", state: S = S.COMPLETE, took: int = 1040, **more: int) -> Record:
    numbers = {"bound_ms": 1000, "bytes": 100, "nodes": 4, "store_bytes": 100, **more}
    return Record("dep-1", model, state, 5000, 5000 + took, **numbers)


def test_the_ratio_and_the_copies_of_one_deployment() -> None:
    one = record(store_bytes=102)
    assert (one.took_ms, one.ratio, one.copies) == (1040, pytest.approx(1.04), pytest.approx(1.02))


def test_what_did_not_complete_has_no_ratio_but_counts() -> None:
    records = [record(), record(took=2000), record(state=S.FAILED, failures=3), record(state=S.CANCELLED)]
    told = summarise("all", records)
    assert (told.deployments, told.complete, told.failed, told.failures) == (4, 2, 1, 3)
    assert (told.median_ratio, told.worst_ratio) == (pytest.approx(1.52), pytest.approx(2.0))
    assert record(bound_ms=0).ratio is None
    assert record(bytes=0).copies is None


def test_nothing_has_no_median() -> None:
    told = summarise("none", [])
    assert (told.deployments, told.median_ratio, told.worst_ratio, told.median_copies) == (
        0,
        None,
        None,
        None,
    )


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1000, 9000), st.sampled_from(S))))
def test_models_add_up_to_all(drawn: list[tuple[str, int, S]]) -> None:
    records = [record(model, state, took, failures=1) for model, took, state in drawn]
    models = by_model(records)
    whole = summarise("all", records)
    assert sum(one.deployments for one in models) == whole.deployments
    assert sum(one.failures for one in models) == whole.failures
    assert max((one.worst_ratio for one in models if one.worst_ratio), default=None) == whole.worst_ratio
    counts = [one.deployments for one in models]
    assert counts == sorted(counts, reverse=True)


def test_a_model_that_moves_in_under_a_second_is_not_judged_by_its_rate() -> None:
    assert times_the_bound(920, 24) is None
    assert times_the_bound(3_000, 1_500) == 2.0
