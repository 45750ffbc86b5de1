"""Servers that answer in the worst of ways: each behaviour writes to a caller until that hangs up."""

from __future__ import annotations

import gzip
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

Behaviour = Callable[[socket.socket, "Hostile"], None]
MOST_SENT = 64 << 20  # then it is tired; whoever takes so much is not bounded
PIECE = bytes(64 << 10)


class Hostile:
    """Counts what callers took of it."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.connections, self.sent = 0, 0
        self.over = threading.Event()
        self._behaviour = behaviour
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def accept(self) -> None:
        while not self.over.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def close(self) -> None:
        self.over.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def send(self, connection: socket.socket, data: bytes) -> None:
        if self.over.is_set() or self.sent > MOST_SENT:
            raise ConnectionError("enough")
        connection.sendall(data)
        self.sent += len(data)

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.recv(1 << 16)
            self._behaviour(connection, self)


@contextmanager
def serving(behaviour: Behaviour) -> Iterator[Hostile]:
    server = Hostile(behaviour)
    threading.Thread(target=server.accept, daemon=True).start()
    try:
        yield server
    finally:
        server.close()


HEAD = b'HTTP/1.1 200 OK\r\nETag: "1"\r\n'


def endless_body(connection: socket.socket, server: Hostile) -> None:
    server.send(connection, HEAD + b"\r\n")
    while True:
        server.send(connection, PIECE)


def endless_chunks(connection: socket.socket, server: Hostile) -> None:
    server.send(connection, HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    while True:
        server.send(connection, b"10000\r\n" + PIECE + b"\r\n")


def promised_terabyte(connection: socket.socket, server: Hostile) -> None:
    server.send(connection, HEAD + b"Content-Length: 1099511627776\r\n\r\n")
    while True:
        server.send(connection, PIECE)


def gzip_bomb(connection: socket.socket, server: Hostile) -> None:
    bomb = gzip.compress(bytes(32 << 20))
    head = HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb)
    server.send(connection, head + bomb)


def dripping_body(connection: socket.socket, server: Hostile) -> None:
    server.send(connection, HEAD + b"Content-Length: 1000000\r\n\r\n")
    _drip(connection, server, b"x")


def dripping_headers(connection: socket.socket, server: Hostile) -> None:
    server.send(connection, HEAD)
    _drip(connection, server, b"X: y\r\n")


def endless_headers(connection: socket.socket, server: Hostile) -> None:
    server.send(connection, HEAD)
    while True:
        server.send(connection, b"X-Filler: " + bytes(0x61 for _ in range(8000)) + b"\r\n")


def endless_header(connection: socket.socket, server: Hostile) -> None:
    server.send(connection, HEAD + b"X-Filler: ")
    while True:
        server.send(connection, b"a" * len(PIECE))


def endless_announcements(connection: socket.socket, server: Hostile) -> None:
    while True:
        server.send(connection, b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 100)


def silence(connection: socket.socket, server: Hostile) -> None:
    server.over.wait(30)


def hang_up(connection: socket.socket, server: Hostile) -> None:
    """Closes the connection without a word."""


def no_http(connection: socket.socket, server: Hostile) -> None:
    server.send(connection, b"SSH-2.0-OpenSSH_9.9\r\n" * 10)


def redirect_loop(connection: socket.socket, server: Hostile) -> None:
    server.send(connection, b"HTTP/1.1 302 Found\r\nLocation: /again\r\nContent-Length: 0\r\n\r\n")
    connection.close()


def redirect_with_endless_body(connection: socket.socket, server: Hostile) -> None:
    server.send(connection, b"HTTP/1.1 302 Found\r\nLocation: /again\r\n\r\n")
    while True:
        server.send(connection, PIECE)


def redirect_to_metadata(connection: socket.socket, server: Hostile) -> None:
    head = b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/latest/meta-data/\r\nContent-Length: 0\r\n\r\n"
    server.send(connection, head)


def redirect_to_nat64(connection: socket.socket, server: Hostile) -> None:
    head = b"HTTP/1.1 307 X\r\nLocation: http://[64:ff9b::a9fe:a9fe]/latest/\r\nContent-Length: 0\r\n\r\n"
    server.send(connection, head)


def redirect_to_file(connection: socket.socket, server: Hostile) -> None:
    server.send(
        connection, b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n"
    )


def _drip(connection: socket.socket, server: Hostile, piece: bytes) -> None:
    while True:
        server.send(connection, piece)
        time.sleep(0.05)  # the behaviour of the server, not a wait of the test


BEHAVIOURS: tuple[Behaviour, ...] = (
    endless_body, endless_chunks, promised_terabyte, gzip_bomb, dripping_body, dripping_headers, endless_headers,
    endless_header, endless_announcements, silence, hang_up, no_http, redirect_loop, redirect_with_endless_body,
    redirect_to_metadata, redirect_to_nat64, redirect_to_file,
)  # fmt: skip
