"""The process that parses: `python -P child.py`, with a socket as its standard input.

It imports what the functions that it is asked for import, and nothing else; it has no environment and no open file of
its parent. A message is two lengths, a JSON document, and bytes beside it.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import socket
import struct
from collections.abc import Callable
from typing import Any

IDLE_SECONDS = 300  # after which it ends by itself
_LONGEST_REASON = 300
_HEAD = struct.Struct("!QQ")


class TooLong(Exception):
    """A message is longer than its receiver takes."""


def send(channel: socket.socket, document: Any, data: bytes = b"") -> None:
    text = json.dumps(document).encode()
    channel.sendall(_HEAD.pack(len(text), len(data)) + text)
    channel.sendall(data)


def receive(
    channel: socket.socket, most: int, before_wait: Callable[[], None] = lambda: None
) -> tuple[Any, bytes] | None:
    """None where the other side is gone. Raises TooLong, and what `before_wait` raises."""
    head = _exactly(channel, _HEAD.size, before_wait)
    if head is None:
        return None
    lengths = _HEAD.unpack(head)
    if sum(lengths) > most:
        raise TooLong
    text, data = (_exactly(channel, length, before_wait) for length in lengths)
    return None if text is None or data is None else (json.loads(text), data)


def _exactly(channel: socket.socket, size: int, before_wait: Callable[[], None]) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        before_wait()
        piece = channel.recv(min(size - len(data), 1 << 20))
        if not piece:
            return None
        data += piece
    return bytes(data)


def main() -> None:
    channel = socket.socket(fileno=os.dup(0))
    channel.settimeout(IDLE_SECONDS)
    limits = receive(channel, 1 << 16)
    for name, limit in limits[0].items() if limits else ():
        resource.setrlimit(getattr(resource, name), (limit, limit))
    with contextlib.suppress(TimeoutError, ConnectionError):
        while request := receive(channel, 1 << 40):
            answer = _answer(*request)
            send(channel, answer)
            if "memory" in answer:
                return  # what is left of it may be in pieces


def _answer(request: dict[str, Any], data: bytes) -> dict[str, Any]:
    _allow_seconds(request["cpu_seconds"])
    module, _, name = request["function"].partition(":")
    try:
        function = getattr(importlib.import_module(module), name)
        return {"value": function(data, **request["arguments"])}
    except MemoryError:
        return {"memory": True}
    except ImportError as error:
        return {"lacks": str(error.name)}
    except Exception as error:  # whatever a parser raises is its verdict on the content
        reason = str(error).strip() or "its content is not what its kind asks for"
        return {"refused": reason.encode(errors="replace").decode()[:_LONGEST_REASON]}


def _allow_seconds(seconds: int) -> None:
    """Of processor time from now on; then SIGXCPU ends this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime) + 1 + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.getrlimit(resource.RLIMIT_CPU)[1]))


if __name__ == "__main__":
    main()
