"""Versions share files: none that is used goes, and each byte is one version's."""

from hypothesis import given
from hypothesis import strategies as st

from platform_core.storage.sharing import own_bytes, unreferenced

SIZES = {name: 10**number for number, name in enumerate("abcdef")}


@given(
    *[st.lists(st.frozensets(st.sampled_from("abcdef"))) for _ in range(2)],
    st.frozensets(st.sampled_from("abcdef")),
)
def test_a_file_that_somebody_uses_is_never_deleted(
    living: list[frozenset[str]], under_way: list[frozenset[str]], stored: frozenset[str]
) -> None:
    gone = unreferenced(stored, living, under_way)
    used = frozenset().union(*living, *under_way)
    assert not gone & used
    assert gone | (stored & used) == stored


@given(st.lists(st.frozensets(st.sampled_from("abcdef"))))
def test_the_bytes_of_all_versions_together_are_those_in_the_store(versions: list[frozenset[str]]) -> None:
    own = list(own_bytes({name: SIZES[name] for name in files} for files in versions))
    assert sum(own) == sum(SIZES[name] for name in frozenset().union(*versions))
    assert all(size <= sum(SIZES[name] for name in files) for size, files in zip(own, versions, strict=True))


def test_a_file_is_that_of_the_oldest_version_that_has_it() -> None:
    assert list(own_bytes([{"a": 5, "b": 1}, {"a": 5, "c": 2}, {"b": 1}])) == [6, 2, 0]
