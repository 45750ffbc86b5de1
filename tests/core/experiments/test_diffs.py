from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from platform_core.experiments.diffs import Change, Line, changes, side_by_side


def test_packages_are_added_removed_and_changed():
    rows = changes({"torch": "2.4", "numpy": "2.0", "old": "1"}, {"torch": "2.5", "numpy": "2.0", "new": "3"})
    assert rows == [Change("new", None, "3"), Change("old", "1", None), Change("torch", "2.4", "2.5")]
    assert [row.kind for row in rows] == ["added", "removed", "changed"]


def test_a_changed_line_stands_beside_the_one_it_replaced():
    assert side_by_side("a\nlr = 1\nb", "a\nlr = 2\nb", context=0) == [
        Line("gap", skipped=1),
        Line("changed", 2, "lr = 1", 2, "lr = 2"),
        Line("gap", skipped=1),
    ]


def test_equal_texts_have_no_rows():
    assert side_by_side("a\nb", "a\nb\n") == []


LINES = st.lists(st.sampled_from("abc"), max_size=20)


@given(LINES, LINES)
def test_both_texts_can_be_read_from_the_rows(left: list[str], right: list[str]):
    rows = side_by_side("\n".join(left), "\n".join(right), context=100)
    if left != right:
        assert [row.left for row in rows if row.left_number] == left
        assert [row.right for row in rows if row.right_number] == right
