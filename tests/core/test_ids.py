from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core import ids

RAW = st.binary(min_size=10, max_size=10)


@given(st.sampled_from(sorted(ids.PREFIXES)), RAW)
def test_an_id_gives_its_bytes_back(prefix: str, raw: bytes):
    text = ids.encode(prefix, raw)
    assert len(text) == len(prefix) + 17
    assert ids.decode(text) == (prefix, raw)


@given(RAW, RAW)
def test_ids_sort_like_their_bytes(one: bytes, other: bytes):
    assert (ids.encode("job", one) < ids.encode("job", other)) == (one < other)


@pytest.mark.parametrize(
    "text", ["", "job", "job-", "-0123456789abcdef", "job-0123456789abcdei", "job-0123456789ABCDEF"]
)
def test_what_is_no_id_is_refused(text: str):
    assert not ids.is_id(text, "job")
    with pytest.raises(ValueError, match="is not an id"):
        ids.decode(text)


def test_an_id_of_another_kind_is_not_this_kind():
    assert not ids.is_id(ids.encode("node", bytes(10)), "job")
    assert ids.is_id(ids.encode("job", bytes(10)), "job")
    assert ids.is_id("man-" + "0" * 32, "man")
    assert not ids.is_id("man-" + "0" * 31, "man")


def test_only_ten_bytes_make_an_id():
    with pytest.raises(ValueError, match="10 bytes, not 9"):
        ids.encode("job", bytes(9))
