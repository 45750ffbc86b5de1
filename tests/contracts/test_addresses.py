"""One place has one address, and no address means another place than the stores read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.distribution.content.address import Address, check_source
from platform_core.errors import TrainmasterError
from trainmaster.store.address import parse, url_of

PIECES = st.sampled_from(
    ["a", "b c", "%61", "..", ".", "", "%2e%2e", "%2f", "%25", "?", "#", "é", "%C3%A9", "%ff"]
)


@given(st.sampled_from(["file://", "s3://b", "s3://", "https://h"]), st.lists(PIECES, max_size=6))
def test_an_address_is_written_in_one_way_that_reads_as_itself(start: str, pieces: list[str]) -> None:
    try:
        address = parse("/".join([start, *pieces]))
    except TrainmasterError:
        return
    assert parse(url_of(address)) == address
    assert not set(address.parts) & {"", ".", ".."}


@pytest.mark.parametrize(
    ("url", "same"),
    [
        ("file:///srv/models", "file://localhost//srv//models/"),
        ("file:///a%20b", "file:///a b/"),
        ("s3://hub/open", "s3://hub//%6Fpen/"),
        ("https://hub.example/x", "HTTPS://HUB.example/x"),
    ],
)
def test_two_spellings_of_a_place_are_equal(url: str, same: str) -> None:
    assert parse(url) == parse(same)
    assert url_of(parse(same)) == url


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("s3://hub/a//b", "an empty"),
        ("s3://hub/a/../b", "'..'"),
        ("s3://", "bucket is missing"),
        ("s3://arn:aws:s3:::hub/x", "a bucket is named by"),
        ("s3://hub/a?versionId=1", "%3F"),
        ("file:///a%00b", "control characters"),
        ("file:///a\n/../b", "control characters"),
        ("file:///a%ff", "utf-8"),
        ("file:a", "three slashes"),
        ("https://h/%252e%252e/x", "within a name"),
        ("https://[h/x", "Invalid IPv6"),
    ],
)
def test_what_could_be_read_in_two_ways_is_refused_with_the_reason(url: str, why: str) -> None:
    with pytest.raises(TrainmasterError, match=why.replace("[", r"\[").replace(".", r"\.")):
        parse(url)


def test_a_refusal_does_not_show_the_password_or_the_signature() -> None:
    for url in ("https://alice:secret@h/%25?sig=secret", "https://alice:secret@other/x?sig=secret"):
        with pytest.raises(TrainmasterError) as refused:
            check_source(parse(url), [], [parse("s3://store")])
        assert "secret" not in refused.value.sentence


def test_a_place_that_holds_the_store_is_as_forbidden_as_one_within_it() -> None:
    everything = [Address("s3", "b", ())]
    for url in ("s3://b", "s3://b/store", "s3://b/store/model"):
        with pytest.raises(TrainmasterError, match="own store"):
            check_source(parse(url), everything, [parse("s3://b/store")])
    check_source(parse("s3://b/stores"), everything, [parse("s3://b/store")])
