"""No secret value goes up, in whatever form and wherever it is cut."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from agent.uplink.mask import SHORTEST_MASKED, Mask

TOKEN = Mask((("HF_TOKEN", "hf_abc123"), ("SHORT", "no")))


def test_a_value_becomes_its_name() -> None:
    assert TOKEN.text(b"login with hf_abc123.") == "login with •••HF_TOKEN•••.".encode()


def test_a_very_short_value_cannot_be_hidden_and_is_not() -> None:
    assert TOKEN.text(b"no, nothing") == b"no, nothing"


def test_each_line_of_a_key_is_masked_by_itself() -> None:
    key = "-----BEGIN KEY-----\nMIIEpAIBAAKCAQEA\nqwertyuiop\n-----END KEY-----\n"
    masked = Mask((("KEY", key),)).text(f"first: MIIEpAIBAAKCAQEA\n{key}".encode()).decode()
    assert "MIIE" not in masked
    assert "qwerty" not in masked


def test_escaped_forms_are_masked_too() -> None:
    value = 'pa"ss\\wörd/1'
    mask = Mask((("P", value),))
    for form in (
        json.dumps(value),
        repr(value),
        "pa%22ss%5Cw%C3%B6rd%2F1",
        "pa%22ss%5Cw%C3%B6rd/1",
        json.dumps(value, ensure_ascii=False),
    ):
        assert "rd" not in mask.sentence(form), form


def test_of_two_values_the_longer_one_wins() -> None:
    mask = Mask((("A", "secret"), ("B", "secret-and-more")))
    assert mask.sentence("secret-and-more") == "•••B•••"


def test_in_events_texts_are_masked_and_numbers_stay_numbers() -> None:
    mask = Mask((("PIN", "123"),))
    masked = mask.value({"kind": "metrics", "values": {"loss": 0.123}, "note": ["is 123", {"123": 1}]})
    assert masked["values"] == {"loss": 0.123}
    assert masked["note"] == ["is •••PIN•••", {"•••PIN•••": 1}]


@given(st.lists(st.sampled_from(["alpha-beta", "alpha", "x", "ö", " ", "-"]), max_size=30), st.data())
def test_wherever_a_long_line_is_cut_no_value_shows(words: list[str], data: st.DataObject) -> None:
    """As the tail does it: cut where it is safe, mask the parts, whatever comes next."""
    mask = Mask((("S", "alpha-beta"), ("T", "alpha")))
    text = "".join(words).encode()
    seen = data.draw(st.integers(0, len(text)))
    cut = mask.safe_cut(text[:seen])
    assert cut <= seen
    text[:cut].decode()  # no character is split
    parts = mask.text(text[:cut]) + mask.text(text[cut:])
    assert parts == mask.text(text)


@given(st.text(min_size=SHORTEST_MASKED, max_size=20).filter(lambda v: len(v.strip()) >= SHORTEST_MASKED))
def test_no_value_survives_in_a_line_that_has_it(value: str) -> None:
    masked = Mask((("N", value),)).text(b"before " + value.encode(errors="replace") + b" after")
    assert all(
        piece.encode() not in masked.replace("•••N•••".encode(), b"|")
        for piece in value.splitlines()
        if len(piece.strip()) >= SHORTEST_MASKED and piece.strip() not in "before after |"
    )
