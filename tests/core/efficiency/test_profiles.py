"""Recorded spans summed up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.efficiency.profiles import MOST_LINES, Kind, Span, kind_of_kernel, length, summary, union

SPANS = st.lists(
    st.builds(
        lambda name, kind, start, took: Span(name, kind, start, start + took),
        st.sampled_from("abc"), st.sampled_from(Kind), st.floats(0, 100), st.floats(0, 50),
    )
)  # fmt: skip


def test_communication_counts_where_no_computation_hides_it() -> None:
    spans = [
        Span("gemm", Kind.COMPUTE, 0, 50),
        Span("all_reduce", Kind.COMMUNICATION, 40, 70),
        Span("copy", Kind.COPY, 60, 80),
        Span("synchronise", Kind.WAIT, 50, 90),
        Span("loader", Kind.DATA, 80, 100),
    ]
    found = summary(spans, 0, 100, steps=2)
    assert (found.compute, found.communication, found.copies) == (0.5, 0.2, 0.1)
    assert found.idle == pytest.approx(0.2)
    assert (found.waiting, found.data, found.span_us) == (0.4, 0.2, 50)


def test_lines_are_sums_by_name_the_longest_first() -> None:
    spans = [Span("a", Kind.COMPUTE, 0, 1), Span("b", Kind.COMPUTE, 1, 3), Span("a", Kind.COMPUTE, 5, 8)]
    lines = summary(spans, 0, 10, 1).lines
    assert [(line.name, line.calls, line.us) for line in lines] == [("a", 2, 4), ("b", 1, 2)]
    many = [Span(str(number), Kind.COMPUTE, 0, number) for number in range(MOST_LINES + 5)]
    assert len(summary(many, 0, 100, 1).lines) == MOST_LINES


@given(SPANS)
def test_work_and_idleness_are_the_whole(spans: list[Span]) -> None:
    found = summary(spans, 10, 90, 1)
    shares = (found.compute, found.communication, found.copies, found.idle)
    assert sum(shares) == pytest.approx(1)
    assert all(-1e-9 <= share <= 1 + 1e-9 for share in (*shares, found.waiting, found.data))


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)).map(lambda ends: (min(ends), max(ends)))))
def test_a_union_covers_what_its_parts_cover(intervals: list[tuple[int, int]]) -> None:
    covered = {moment for start, end in intervals for moment in range(start, end)}
    assert length(union(intervals)) == len(covered)


def test_kernels_are_told_apart_by_their_names() -> None:
    assert kind_of_kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(…)") is Kind.COMMUNICATION
    assert kind_of_kernel("gloo:all_reduce") is Kind.COMMUNICATION
    assert kind_of_kernel("Memcpy HtoD (Pinned -> Device)") is Kind.COPY
    assert kind_of_kernel("ampere_bf16_s16816gemm") is Kind.COMPUTE
