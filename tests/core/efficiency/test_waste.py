"""GPU time that was not used."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.efficiency.waste import Use, total, totals

USES = st.builds(
    Use, st.text("ab", min_size=1), st.just("x"), st.sampled_from(["vision", "nlp"]), st.just("bob"), st.just("cpu"),
    st.integers(0, 10**12), st.integers(0, 10**12), st.none() | st.floats(0, 1), st.none() | st.floats(0, 1),
)  # fmt: skip


def test_what_was_not_used_is_wasted_and_costs_its_part() -> None:
    use = Use("job-1", "x", "vision", "bob", "h100-80gb", gpu_ms=4000, micro_dollars=1000, utilisation=0.25)
    assert (use.wasted_ms, use.wasted_micro_dollars) == (3000, 750)


def test_nothing_is_said_of_a_job_that_was_not_measured() -> None:
    use = Use("job-1", "x", "vision", "bob", "h100-80gb", 4000, 1000)
    assert (use.wasted_ms, use.wasted_micro_dollars) == (0, 0)
    assert total("all", [use]).utilisation is None


def test_means_are_weighted_by_gpu_time() -> None:
    long = Use("a", "x", "vision", "bob", "cpu", 3000, 0, 0.2, 0.1)
    short = Use("b", "x", "vision", "bob", "cpu", 1000, 0, 1.0, 0.5)
    found = total("vision", [long, short, Use("c", "x", "vision", "bob", "cpu", 9000, 0)])
    assert found.utilisation == pytest.approx(0.4)
    assert found.mfu == pytest.approx(0.2)


@given(st.lists(USES))
def test_the_groups_add_up_to_the_whole(uses: list[Use]) -> None:
    groups, whole = totals(uses, lambda use: use.team), total("all", uses)
    for name in ("jobs", "gpu_ms", "micro_dollars", "wasted_ms", "wasted_micro_dollars"):
        assert sum(getattr(group, name) for group in groups) == getattr(whole, name)
    assert whole.wasted_ms <= whole.gpu_ms
    assert [group.wasted_ms for group in groups] == sorted(
        (group.wasted_ms for group in groups), reverse=True
    )
