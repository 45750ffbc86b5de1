"""Messages between worker and server: their length in four bytes, then JSON."""

import json
import socket
from typing import Any


def send(connection: socket.socket, message: dict[str, Any]) -> None:
    data = json.dumps(message).encode()
    connection.sendall(len(data).to_bytes(4, "big") + data)


def receive(connection: socket.socket) -> dict[str, Any]:
    return json.loads(_read(connection, int.from_bytes(_read(connection, 4), "big")))


def _read(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            raise ConnectionError("the other side has closed the connection")
        data += part
    return data
