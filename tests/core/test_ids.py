from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core import ids

RAW = st.binary(min_size=10, max_size=10)


@given(RAW, RAW)
def test_an_id_has_its_prefix_and_sixteen_characters(one: bytes, other: bytes):
    text = ids.encode("node", one)
    assert text.startswith("node-")
    assert len(text) == len("node-") + 16
    assert (text == ids.encode("node", other)) == (one == other)


@given(RAW, RAW)
def test_ids_sort_like_their_bytes(one: bytes, other: bytes):
    assert (ids.encode("job", one) < ids.encode("job", other)) == (one < other)


def test_only_ten_bytes_make_an_id():
    with pytest.raises(ValueError, match="10 bytes, not 9"):
        ids.encode("job", bytes(9))
