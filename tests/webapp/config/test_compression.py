"""What goes over the wire compressed."""

import gzip
from collections.abc import Callable

import pytest
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.test import RequestFactory

from webapp.config.compression import CompressText

TEXT = b"a line of a page\n" * 200


def answer(rf: RequestFactory, response: HttpResponseBase, encoding: str = "gzip") -> HttpResponseBase:
    view: Callable[[HttpRequest], HttpResponseBase] = lambda request: response  # noqa: E731
    return CompressText(view)(rf.get("/", headers={"accept-encoding": encoding}))  # type: ignore[return-value]


@pytest.mark.parametrize("kind", ["text/html; charset=utf-8", "application/json", "text/csv"])
def test_text_is_compressed_for_a_browser_that_accepts_it(rf: RequestFactory, kind: str) -> None:
    response = answer(rf, HttpResponse(TEXT, content_type=kind))
    assert isinstance(response, HttpResponse)
    assert response["Content-Encoding"] == "gzip"
    assert response["Vary"] == "Accept-Encoding"
    assert gzip.decompress(response.content) == TEXT


def test_two_answers_of_the_same_text_differ_in_length_so_that_it_tells_nothing(rf: RequestFactory) -> None:
    lengths = {len(answer(rf, HttpResponse(TEXT)).content) for _ in range(50)}  # type: ignore[attr-defined]
    assert len(lengths) > 1


def test_a_large_answer_is_compressed_for_the_same_reader_in_less_time(rf: RequestFactory) -> None:
    large = b"".join(b"%d line of a page\n" % number for number in range(20_000))
    response = answer(rf, HttpResponse(large, headers={"ETag": '"of-the-text"'}))
    assert isinstance(response, HttpResponse)
    assert gzip.decompress(response.content) == large
    assert response["Content-Encoding"] == "gzip"
    assert response["Vary"] == "Accept-Encoding"
    assert response["ETag"] == 'W/"of-the-text"'
    assert int(response["Content-Length"]) == len(response.content) < len(large) / 4
    plain = answer(rf, HttpResponse(large), encoding="identity")
    assert not plain.has_header("Content-Encoding")
    assert plain["Vary"] == "Accept-Encoding"


@pytest.mark.parametrize(
    "response",
    [
        HttpResponse(b"ok"),
        HttpResponse(TEXT, content_type="application/octet-stream"),
        StreamingHttpResponse([TEXT], content_type="text/plain", headers={"Content-Length": str(len(TEXT))}),
    ],
    ids=["short", "bytes", "download"],
)
def test_what_gains_nothing_or_counts_its_length_stays_as_it_is(
    rf: RequestFactory, response: HttpResponseBase
) -> None:
    length = response.headers.get("Content-Length")
    sent = answer(rf, response)
    assert not sent.has_header("Content-Encoding")
    assert sent.headers.get("Content-Length") in (length, "2")


def test_a_caller_that_accepts_no_compression_gets_none(rf: RequestFactory) -> None:
    assert not answer(rf, HttpResponse(TEXT), encoding="identity").has_header("Content-Encoding")
