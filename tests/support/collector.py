"""A collector of OTLP over HTTP, which keeps what it is sent."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Collector:
    """`status`: what it answers."""

    def __init__(self) -> None:
        self.status = 200
        self.requests: list[tuple[str, dict[str, str], dict[str, Any]]] = []  # path, headers, body
        self.arrived = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def spans(self) -> list[dict[str, Any]]:
        """With the service that each is of, under `service`."""
        with self.arrived:
            bodies = [body for _, _, body in self.requests]
        return [
            {**span, "service": part["resource"]["attributes"][0]["value"]["stringValue"]}
            for body in bodies
            for part in body["resourceSpans"]
            for scope in part["scopeSpans"]
            for span in scope["spans"]
        ]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with collector.arrived:
                    collector.requests.append((self.path, dict(self.headers.items()), body))
                    collector.arrived.notify_all()
                self.send_response(collector.status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_: object) -> None:
                """Says nothing."""

        return Handler

    @contextmanager
    def running(self) -> Iterator[Collector]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()
