"""uvicorn's server with bounds on what stands before a body: `uvicorn --http webapp.base.http_server:BoundedHttp`."""

from __future__ import annotations

from asyncio import BaseTransport, TimerHandle
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

MOST_OF_HEAD = (
    64 << 10
)  # bytes of the address and all headers; of trailers and what divides chunks, between two parts
MOST_HEADERS = 200
HEAD_SECONDS = 30.0  # from the first byte of a request, or from the connection, to the end of its headers


class BoundedHttp(HttpToolsProtocol):
    """httptools joins the parts of a header that comes piece by piece anew with each, without end: 54 MiB of one header
    cost everybody seven seconds. So what comes without a part of a body is counted, and has its time."""

    def connection_made(self, transport: BaseTransport) -> None:
        self._head = self._without_body = 0
        self._refusal = 0
        self._timer: TimerHandle | None = None
        super().connection_made(transport)  # type: ignore[arg-type]
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_is_here()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._without_body += len(data)
        super().data_received(data)
        if self._without_body > MOST_OF_HEAD and not self.transport.is_closing():
            self._refuse(431)

    def on_message_begin(self) -> None:
        self._head = 0
        super().on_message_begin()
        self._wait_for_head()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        if len(self.headers) >= MOST_HEADERS:
            self._count(MOST_OF_HEAD)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._head_is_here()
        self._without_body = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._without_body = 0
        super().on_body(body)

    def send_400_response(self, msg: str) -> None:
        if not self._refusal:
            super().send_400_response(msg)
        else:
            self._refuse(self._refusal)

    def _count(self, size: int) -> None:
        self._head += size
        if self._head > MOST_OF_HEAD:
            self._refusal = 431
            raise ValueError("the headers are too large")  # the parser stops

    def _refuse(self, status: int) -> None:
        """Answers where no answer is under way, and closes the connection."""
        if self.cycle is None or self.cycle.response_complete:
            self.transport.write(STATUS_LINE[status] + b"content-length: 0\r\nconnection: close\r\n\r\n")
        self.transport.close()

    def _wait_for_head(self) -> None:
        self._head_is_here()
        self._timer = self.loop.call_later(HEAD_SECONDS, self._too_late)

    def _head_is_here(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_late(self) -> None:
        if not self.transport.is_closing():
            self._refuse(408)

    def handle_websocket_upgrade(self) -> Any:
        self._head_is_here()
        return super().handle_websocket_upgrade()
