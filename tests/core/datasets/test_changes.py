"""Two lists of files are compared by path, size and digest or etag."""

from hypothesis import given
from hypothesis import strategies as st

from platform_core.datasets.changes import Mark, compare


def test_added_removed_changed_and_unchanged_files_are_told_apart() -> None:
    before = {"kept": Mark(1, "a"), "gone": Mark(2, "b"), "edited": Mark(4, "c")}
    after = {"kept": Mark(1, "a"), "new": Mark(8, "d"), "edited": Mark(5, "e")}
    changes = compare(before, after)
    assert (changes.added, changes.removed, changes.changed) == (("new",), ("gone",), ("edited",))
    assert (changes.unchanged, changes.added_bytes, changes.removed_bytes) == (1, 8, 2)
    assert (changes.changed_bytes, changes.unchanged_bytes) == (5, 1)
    assert str(changes) == "1 added, 1 removed, 1 changed"


def test_where_no_etag_is_known_the_size_decides() -> None:
    assert not compare({"a": Mark(1)}, {"a": Mark(1, "x")})
    assert compare({"a": Mark(1)}, {"a": Mark(2, "x")}).changed == ("a",)
    assert str(compare({"a": Mark(1)}, {"a": Mark(1)})) == "all 1 files are unchanged"


FILES = st.dictionaries(st.text("abc", max_size=2), st.builds(Mark, st.integers(0, 2), st.sampled_from("xy")))


@given(FILES, FILES)
def test_every_file_is_counted_once(before: dict[str, Mark], after: dict[str, Mark]) -> None:
    changes = compare(before, after)
    assert len(changes.removed) + len(changes.changed) + changes.unchanged == len(before)
    assert len(changes.added) + len(changes.changed) + changes.unchanged == len(after)
    total = sum(mark.size for mark in after.values())
    assert changes.added_bytes + changes.changed_bytes + changes.unchanged_bytes == total
