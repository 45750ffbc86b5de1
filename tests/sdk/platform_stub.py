"""A real HTTP server that answers as the platform does, and remembers what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "tm_secret"


@dataclass(frozen=True)
class Asked:
    method: str
    path: str  # with the query, without /api/v1/
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class PlatformStub:
    """`answers` maps "METHOD path" to (status, body), or to a list of them, the last of which stays."""

    url: str
    answers: dict[str, Any] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)

    def answer(self, request: str, body: Any, status: int = 200) -> None:
        self.answers.setdefault(request, []).append((status, body))

    def refuse(self, request: str, status: int, code: str, detail: str, **more: Any) -> None:
        self.answer(
            request, {"title": "No", "status": status, "code": code, "detail": detail, **more}, status
        )

    def requests(self, method: str, beginning: str = "") -> list[Asked]:
        return [one for one in self.asked if one.method == method and one.path.startswith(beginning)]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: StubServer

    def handle_any(self) -> None:
        stub = self.server.stub
        path = self.path.removeprefix("/api/v1/")
        headers = {name.lower(): value for name, value in self.headers.items()}
        stub.asked.append(Asked(self.command, path, headers, self.read_body()))
        if headers.get("authorization") != f"Bearer {TOKEN}":
            self.reply(401, {"code": "not_authenticated", "detail": "This needs a token that is still valid"})
            return
        names = (f"{self.command} {path}", f"{self.command} {path.partition('?')[0]}")
        found = stub.answers.get(names[0]) or stub.answers.get(names[1])
        if not found:
            self.reply(404, {"code": "not_found", "detail": f"There is no {path} you may see"})
            return
        status, answer = found.pop(0) if len(found) > 1 else found[0]
        self.reply(status, answer)

    def read_body(self) -> bytes:
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def reply(self, status: int, answer: Any) -> None:
        page = isinstance(answer, bytes)
        raw = answer if page else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html" if page else "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

    def log_message(self, format: str, *args: Any) -> None:
        return


class StubServer(ThreadingHTTPServer):
    daemon_threads = True
    stub: PlatformStub


@contextmanager
def running_stub() -> Iterator[PlatformStub]:
    server = StubServer(("127.0.0.1", 0), Handler)
    server.stub = PlatformStub(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server.stub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
