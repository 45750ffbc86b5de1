import json

from hypothesis import given
from hypothesis import strategies as st

from platform_core.json_values import storable

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters()), inner),
)


@given(anything)
def test_whatever_comes_is_json_without_nul(value: object):
    text = json.dumps(storable(value), allow_nan=False, ensure_ascii=False)
    assert "\\u0000" not in text
    text.encode()


def test_what_can_be_kept_is_kept():
    value = {"lr": 3e-4, "layers": [1, 2], "name": "Größe", "on": True, "none": None}
    assert storable(value) == value


def test_what_cannot_be_kept_is_shown():
    assert storable({"a\0": "b\0\ud800", "loss": float("nan")}) == {"a�": "b�?", "loss": "nan"}
