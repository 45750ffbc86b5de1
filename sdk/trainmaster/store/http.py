"""Files on a web server as a store that can only be read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from urllib.parse import quote, urlsplit, urlunsplit

import httpcore  # noqa: F401 (httpx does so with its first client, which somebody waits for)
import httpx

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

# Whom to trust. To read it anew for each store takes 40 ms of CPU, before its first byte.
_TLS = httpx.create_ssl_context()


class HttpStore:
    """The reading half of `Store`. The server must answer ranges; it cannot be listed."""

    same_everywhere = True

    def __init__(
        self, url: str, silence: float = SILENCE_SECONDS, resolve: Callable[[str, int], str] | None = None
    ) -> None:
        """`resolve`: gives the address to connect to for a host and port, or raises; redirects ask it as well."""
        self.url = url.rstrip("/")
        # Compressed answers would make the bytes of a range something else.
        headers = {"Accept-Encoding": "identity"}
        timeout = httpx.Timeout(silence, connect=min(5, silence))
        self._client = httpx.Client(
            headers=headers, timeout=timeout, follow_redirects=True, verify=_TLS,
            transport=_Resolved(resolve) if resolve is not None else None,
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
        with _clear_errors(url), self._client.stream("GET", url, headers=headers) as answer:
            if answer.status_code == httpx.codes.PRECONDITION_FAILED:
                raise changed(shown(url), etag, self.etag(path))
            answer.raise_for_status()
            # Not every server knows If-Match.
            if etag and etag != (now := _etag(answer.headers)):
                raise changed(shown(url), etag, now)
            if answer.status_code != httpx.codes.PARTIAL_CONTENT and offset:
                raise unavailable(shown(url), "the server does not answer ranges; put the file into a store")
            yield from whole(answer.iter_raw(), offset, size, shown(url))

    def write(self, path: str, stream: Iterable[bytes], size: int | None = None) -> int:
        raise read_only(shown(self.url))

    def exists(self, path: str) -> bool:
        url = self._address(path)
        with _clear_errors(url):
            answer = self._client.head(url)
            if answer.status_code in (httpx.codes.NOT_FOUND, httpx.codes.GONE):
                return False
            answer.raise_for_status()
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
        with _clear_errors(url):
            return self._client.head(url).raise_for_status().headers

    def _address(self, path: str) -> str:
        parts = urlsplit(self.url)
        below = f"{parts.path.rstrip('/')}/{quote(checked(path))}"
        return urlunsplit((parts.scheme, parts.netloc, below, parts.query, ""))


class _Resolved(httpx.HTTPTransport):
    """Connects to the address that `resolve` gives, and not to the name, which may lead elsewhere a moment later."""

    def __init__(self, resolve: Callable[[str, int], str]) -> None:
        super().__init__(verify=_TLS, trust_env=False)
        self._resolve = resolve

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        address = self._resolve(url.host, url.port or (443 if url.scheme == "https" else 80))
        request = httpx.Request(
            request.method, url.copy_with(host=address), headers=request.headers, stream=request.stream,
            extensions={**request.extensions, "sni_hostname": url.host},
        )  # fmt: skip
        return super().handle_request(request)


def _etag(headers: httpx.Headers) -> str:
    return str(headers.get("ETag", headers.get("Last-Modified", "")))


@contextmanager
def _clear_errors(url: str) -> Iterator[None]:
    try:
        yield
    except httpx.HTTPStatusError as error:
        status = error.response.status_code
        why = _REASONS.get(status, f"the server answered {status} {error.response.reason_phrase}")
        raise unavailable(shown(url), why, missing=status in _MISSING) from error
    except httpx.HTTPError as error:
        raise unavailable(shown(url), str(error) or type(error).__name__) from error


_MISSING = (404, 410, 416)
_REASONS = {
    404: "there is no such file",
    403: "access is denied",
    416: "it ended before the range began",
}
