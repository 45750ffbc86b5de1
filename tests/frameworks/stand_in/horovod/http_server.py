"""As horovod.runner.http.http_server: values by scope and key, 404 until they are there."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from horovod.hosts import SlotInfo


class _Handler(BaseHTTPRequestHandler):
    store: dict[str, bytes]

    def do_PUT(self) -> None:
        self.store[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()

    def do_GET(self) -> None:
        value = self.store.get(self.path)
        self.send_response(404 if value is None else 200)
        self.end_headers()
        self.wfile.write(value or b"")

    def log_message(self, *_: Any) -> None:
        pass


class RendezvousServer:
    def __init__(self, verbose: int = 0) -> None:
        self._handler = type("Handler", (_Handler,), {"store": {}})

    def start(self) -> int:
        server = ThreadingHTTPServer(("", 0), self._handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server.server_port

    def init(self, host_alloc_plan: list[SlotInfo]) -> None:
        self._handler.store["/plan/size"] = str(len(host_alloc_plan)).encode()  # type: ignore[attr-defined]
