"""HTTP to servers that nobody vouches for: each request ends in time, at a known size, at an address that was checked.

The look-up, the connection, every redirect and the answer share one deadline. Bytes have to come at a least rate. The
address that is connected to is the one that was checked. An answer is never decompressed.
"""

from __future__ import annotations

import math
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import httpcore
import httpx

from platform_core.units import format_bytes
from trainmaster.gate import Resolve

T = TypeVar("T")

DEADLINE = 10.0  # seconds
MOST_BYTES = 64 << 10  # of an answer that nobody needs
LEAST_RATE = 1 << 10  # bytes a second, over WINDOW seconds of waiting
WINDOW = 10.0
MOST_OF_HEADS = 1 << 20  # with all that comes in its packets, before the head of the last answer
HEAD_DEADLINE = 60.0  # for the head of an answer whose body has no deadline
CONNECT_SECONDS = 5.0
_PIECE = 64 << 10
_REDIRECTS = (301, 302, 303, 307, 308)
_TROUBLE = (httpcore.NetworkError, httpcore.ProtocolError, httpcore.ConnectionNotAvailable)
# Whom to trust. To read it anew for each client takes 40 ms of CPU, before its first byte.
_TLS = httpx.create_ssl_context(trust_env=False)


class NoAnswer(Exception):
    """There is no whole answer within the bounds. The text is a clause that names the host and repeats no answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The head of an answer, and its body as it comes: raw, and no more than was agreed."""

    status: int
    headers: httpx.Headers
    url: str
    parts: Iterator[bytes]

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


@dataclass(frozen=True, slots=True)
class WholeAnswer:
    status: int
    headers: httpx.Headers
    body: bytes

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


class Client:
    """Keeps connections for the next request. Safe to use from several threads at once."""

    def __init__(
        self,
        resolve: Resolve,
        *,
        deadline: float | None = DEADLINE,
        silence: float = DEADLINE,
        most_bytes: int | None = MOST_BYTES,
        least_rate: int = LEAST_RATE,
        redirects: int = 0,
    ) -> None:
        """`deadline`: seconds for the whole of a request; None leaves it to the least rate. `silence`: without a byte.
        `most_bytes`: of a body; None is for bodies whose reader counts."""
        self._deadline, self._silence, self._least_rate = deadline, silence, least_rate
        self._most_bytes, self._redirects = most_bytes, redirects
        self._pool = httpcore.ConnectionPool(
            _TLS, network_backend=_Network(resolve), max_connections=100, max_keepalive_connections=20,
            keepalive_expiry=5.0,
        )  # fmt: skip

    def close(self) -> None:
        self._pool.close()

    def request(
        self, method: str, url: str, headers: Mapping[str, str] | None = None, content: bytes = b""
    ) -> WholeAnswer:
        """Raises NoAnswer, and what `resolve` raises."""
        with self.stream(method, url, headers, content) as answer:
            if answer.headers.get("Content-Encoding", "identity").lower() != "identity":
                raise NoAnswer(
                    f"{httpx.URL(answer.url).host} sent a compressed answer, which was not asked for"
                )
            return WholeAnswer(answer.status, answer.headers, b"".join(answer.parts))

    @contextmanager
    def stream(
        self, method: str, url: str, headers: Mapping[str, str] | None = None, content: bytes = b""
    ) -> Iterator[Answer]:
        """Raises NoAnswer, also while the parts are read, and what `resolve` raises."""
        patience = _Patience(self._deadline, self._silence, self._least_rate)
        sent = {
            "Accept": "*/*",
            "Accept-Encoding": "identity",
            "User-Agent": "trainmaster",
            **(headers or {}),
        }
        target = _parsed(url)
        with _sentences(patience):
            for _ in range(self._redirects + 1):
                patience.host = target.host
                with self._pool.stream(
                    method, _core_url(target), headers=list(sent.items()), content=content or None,
                    extensions={"timeout": {**dict.fromkeys(("connect", "read", "write"), patience),
                                            "pool": patience.left()}},
                ) as response:  # fmt: skip
                    answered = httpx.Headers(response.headers)
                    if not self._redirects or response.status not in _REDIRECTS or "Location" not in answered:
                        patience.head_came()
                        yield Answer(response.status, answered, str(target), self._counted(target, response))
                        return
                    target, sent = _redirected(target, answered["Location"], sent)
            raise NoAnswer(f"{target.host} redirects more than {self._redirects} times")

    def _counted(self, target: httpx.URL, response: httpcore.Response) -> Iterator[bytes]:
        size = 0
        for part in response.iter_stream():
            size += len(part)
            if self._most_bytes is not None and size > self._most_bytes:
                raise NoAnswer(f"{target.host} answered with more than {format_bytes(self._most_bytes)}")
            yield part


def request(
    method: str, url: str, *, resolve: Resolve, headers: Mapping[str, str] | None = None, content: bytes = b"",
    deadline: float = DEADLINE, most_bytes: int = MOST_BYTES, least_rate: int = LEAST_RATE, redirects: int = 0,
) -> WholeAnswer:  # fmt: skip
    """One request over a connection of its own. Raises NoAnswer, and what `resolve` raises."""
    client = Client(
        resolve, deadline=deadline, silence=deadline, most_bytes=most_bytes, least_rate=least_rate,
        redirects=redirects,
    )  # fmt: skip
    try:
        return client.request(method, url, headers, content)
    finally:
        client.close()


@dataclass(slots=True)
class _Patience:
    """What is left of the time of one request, in whichever threads it is read. httpcore hands it on as its timeout."""

    deadline: float | None
    silence: float
    least_rate: int
    host: str = ""
    _until: float = field(init=False)
    _waited: float = 0.0
    _came: int = 0
    _of_head: int = 0

    def __post_init__(self) -> None:
        self._until = time.monotonic() + (HEAD_DEADLINE if self.deadline is None else self.deadline)

    def head_came(self) -> None:
        self._of_head = -1
        if self.deadline is None:
            self._until = math.inf

    def left(self) -> float:
        left = self._until - time.monotonic()
        if left <= 0:
            raise NoAnswer(
                f"{self.host} did not answer to the end within {self.deadline or HEAD_DEADLINE:g} s"
            )
        return min(self.silence, left)

    def read(self, read: Callable[[float], bytes]) -> bytes:
        """Counts the time of waiting alone: a reader that is slow itself is no slow server."""
        began = time.monotonic()
        data = read(self.left())
        self._waited += time.monotonic() - began if self._came else 0.0  # from the first byte on
        self._came += len(data)
        if self._of_head >= 0:
            self._of_head += len(data)
            if self._of_head > MOST_OF_HEADS:
                raise NoAnswer(f"{self.host} sent {format_bytes(MOST_OF_HEADS)} and no answer")
        if self._waited >= WINDOW:
            if self._came < self.least_rate * self._waited:
                raise NoAnswer(
                    f"{self.host} sent fewer than {format_bytes(self.least_rate)} a second for {WINDOW:g} s"
                )
            self._waited, self._came = 0.0, 1
        return data


class _Network(httpcore.NetworkBackend):
    """Connects to the address that `resolve` gives, and not to the name, which may lead elsewhere a moment later."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve, self._sockets = resolve, httpcore.SyncBackend()

    def connect_tcp(self, host: str, port: int, timeout: Any = None, *rest: Any, **named: Any) -> _Stream:
        patience: _Patience = timeout
        places = _within(patience.left(), lambda: self._resolve(host, port))
        if places is None:
            raise NoAnswer(f"the address of {host} was not found in time")
        *earlier, last = places
        for address in earlier:
            with suppress(httpcore.ConnectError, httpcore.ConnectTimeout):
                return self._connected(address, port, patience, *rest, **named)
        return self._connected(last, port, patience, *rest, **named)

    def _connected(self, address: str, port: int, patience: _Patience, *rest: Any, **named: Any) -> _Stream:
        seconds = min(CONNECT_SECONDS, patience.left())
        return _Stream(self._sockets.connect_tcp(address, port, seconds, *rest, **named))

    def connect_unix_socket(self, path: str, *rest: Any, **named: Any) -> httpcore.NetworkStream:
        raise NotImplementedError("nothing that leaves this machine")

    def sleep(self, seconds: float) -> None:
        raise NotImplementedError("nothing is tried again here")


class _Stream(httpcore.NetworkStream):
    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: Any = None) -> bytes:
        patience: _Patience = timeout
        return patience.read(lambda seconds: self._stream.read(max_bytes, seconds))

    def write(self, buffer: bytes, timeout: Any = None) -> None:
        """Asks for what is left before each piece: a server that reads slowly is as slow as one that writes so."""
        patience: _Patience = timeout
        connection: socket.socket = self._stream.get_extra_info("socket")
        rest = memoryview(buffer)
        try:
            while rest:
                connection.settimeout(patience.left())
                rest = rest[connection.send(rest[:_PIECE]) :]
        except TimeoutError as error:
            raise httpcore.WriteTimeout(error) from error
        except OSError as error:
            raise httpcore.WriteError(error) from error

    def close(self) -> None:
        self._stream.close()

    def start_tls(self, ssl_context: Any, server_hostname: str | None = None, timeout: Any = None) -> _Stream:
        patience: _Patience = timeout
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, patience.left()))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _within(seconds: float, call: Callable[[], T]) -> T | None:
    """What the call returns or raises; None where it takes longer. The look-up of a name knows no timeout."""
    done: list[T | BaseException] = []

    def run() -> None:
        try:
            done.append(call())
        except BaseException as error:
            done.append(error)

    thread = threading.Thread(target=run, name="look-up", daemon=True)
    thread.start()
    thread.join(seconds)
    if not done:
        return None
    if isinstance(done[0], BaseException):
        raise done[0]
    return done[0]


def _parsed(url: str) -> httpx.URL:
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, UnicodeError, ValueError) as error:
        raise NoAnswer("the address cannot be read") from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise NoAnswer(f"{parsed.host or 'an address'} is not asked by http:// or https://")
    return parsed


def _redirected(
    asked: httpx.URL, location: str, headers: Mapping[str, str]
) -> tuple[httpx.URL, dict[str, str]]:
    """Where it leads. Another server gets no credential of this one."""
    target = _parsed(str(asked.join(location)))
    same = (target.scheme, target.host, target.port) == (asked.scheme, asked.host, asked.port)
    return target, {name: value for name, value in headers.items() if same or name.lower() != "authorization"}


def _core_url(url: httpx.URL) -> httpcore.URL:
    return httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)


@contextmanager
def _sentences(patience: _Patience) -> Iterator[None]:
    try:
        yield
    except httpcore.TimeoutException as error:
        patience.left()  # says so where it was the deadline
        raise NoAnswer(f"{patience.host} sent nothing for {patience.silence:g} s") from error
    except _TROUBLE as error:
        raise NoAnswer(f"{patience.host} did not answer: {type(error).__name__}") from error
