"""Files on a web server as a store that can only be read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from urllib.parse import quote, urlsplit, urlunsplit

import httpx

from trainmaster import gate
from trainmaster.outbound import Answer, Client, NoAnswer
from trainmaster.store.port import (
    BLOCK,
    SILENCE_SECONDS,
    Entry,
    changed,
    checked,
    read_only,
    shown,
    unavailable,
    whole,
)

LEAST_RATE = 8 << 10  # bytes a second of a file
MOST_REDIRECTS = 5


class HttpStore:
    """The reading half of `Store`. The server must answer ranges; it cannot be listed."""

    same_everywhere = True

    def __init__(
        self,
        url: str,
        silence: float = SILENCE_SECONDS,
        deadline: float | None = None,
        least_rate: int = LEAST_RATE,
        resolve: gate.Resolve = gate.installed,
    ) -> None:
        """`deadline`: seconds for the whole of one range; None leaves it to the least rate, in bytes a second.
        `resolve`: of an address that the platform made, and nobody named."""
        self.url = url.rstrip("/")
        self._client = Client(
            resolve, deadline=deadline, silence=silence, most_bytes=None, least_rate=least_rate,
            redirects=MOST_REDIRECTS,
        )  # fmt: skip

    def read_range(self, path: str, offset: int, size: int, etag: str = "") -> bytes:
        return b"".join(self.stream_range(path, offset, size, etag))

    def stream_range(
        self, path: str, offset: int, size: int, etag: str = "", block: int = BLOCK
    ) -> Iterator[bytes]:
        url = self._address(path)
        if size == 0:
            return
        headers = {"Range": f"bytes={offset}-{offset + size - 1}"}
        if etag.startswith('"'):  # neither a weak one nor a time
            headers["If-Match"] = etag
        with _clear_errors(url), self._client.stream("GET", url, headers) as answer:
            if answer.status == httpx.codes.PRECONDITION_FAILED:
                raise changed(shown(url), etag, self.etag(path))
            _require_success(answer, url)
            # Not every server knows If-Match.
            if etag and etag != (now := _etag(answer.headers)):
                raise changed(shown(url), etag, now)
            if answer.status != httpx.codes.PARTIAL_CONTENT and offset:
                raise unavailable(shown(url), "the server does not answer ranges; put the file into a store")
            yield from whole(answer.parts, offset, size, shown(url))

    def write(self, path: str, stream: Iterable[bytes], size: int | None = None) -> int:
        raise read_only(shown(self.url))

    def exists(self, path: str) -> bool:
        url = self._address(path)
        with _clear_errors(url), self._client.stream("HEAD", url) as answer:
            if answer.status in (httpx.codes.NOT_FOUND, httpx.codes.GONE):
                return False
            _require_success(answer, url)
        return True

    def size(self, path: str) -> int:
        length = self._head(path).get("Content-Length")
        if length is None:
            raise unavailable(shown(self._address(path)), "the server does not say how long it is")
        return int(length)

    def etag(self, path: str) -> str:
        return _etag(self._head(path))

    def real(self, path: str) -> str:
        return self._address(path)

    def list(self, prefix: str = "") -> Iterator[Entry]:
        raise read_only(f"listing {shown(self.url)}")

    def move(self, path: str, to: str) -> None:
        raise read_only(shown(self.url))

    def delete(self, path: str) -> None:
        raise read_only(shown(self.url))

    def _head(self, path: str) -> httpx.Headers:
        url = self._address(path)
        with _clear_errors(url), self._client.stream("HEAD", url) as answer:
            _require_success(answer, url)
            return answer.headers

    def _address(self, path: str) -> str:
        parts = urlsplit(self.url)
        below = f"{parts.path.rstrip('/')}/{quote(checked(path))}"
        return urlunsplit((parts.scheme, parts.netloc, below, parts.query, ""))


def _etag(headers: httpx.Headers) -> str:
    return str(headers.get("ETag", headers.get("Last-Modified", "")))


def _require_success(answer: Answer, url: str) -> None:
    if answer.is_success:
        return
    phrase = httpx.codes.get_reason_phrase(answer.status)
    why = _REASONS.get(answer.status, f"the server answered {answer.status} {phrase}".rstrip())
    raise unavailable(shown(url), why, missing=answer.status in _MISSING)


@contextmanager
def _clear_errors(url: str) -> Iterator[None]:
    try:
        yield
    except NoAnswer as error:
        raise unavailable(shown(url), error) from error


_MISSING = (404, 410, 416)
_REASONS = {
    404: "there is no such file",
    403: "access is denied",
    416: "it ended before the range began",
}
