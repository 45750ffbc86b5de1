"""/metrics of one process, for Prometheus: what the process knows of itself, behind a token.

What any web process answers for the whole platform stands at the /metrics of the web.
"""

from __future__ import annotations

import hmac
import threading
from collections.abc import Callable, Iterable
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
    make_wsgi_app,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

Families = Callable[[], Iterable[Metric]]


class MetricsServer(ThreadingMixIn, WSGIServer):
    """Lives on threads of its own."""

    daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://{self.server_name}:{self.server_port}/metrics"


class _Silent(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        return


class _Asked(Collector):
    def __init__(self, families: Families) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families()


def serve(listen: str, token: str, families: Families) -> MetricsServer:
    """Begins to answer at HOST:PORT; port 0 takes a free one. `families` is called by a thread at each scrape.

    Raises ValueError for what is no HOST:PORT, OSError where it cannot listen there.
    """
    host, separator, port = listen.rpartition(":")
    if not (separator and host and port.isdigit() and int(port) <= 65535):
        raise ValueError(f'"{listen}" must be HOST:PORT, as in 127.0.0.1:9100')
    registry = CollectorRegistry()
    for collector in (ProcessCollector(registry=None), PlatformCollector(registry=None), _Asked(families)):
        registry.register(collector)
    GCCollector(registry=registry)
    answer = make_wsgi_app(registry)

    def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        given = str(environ.get("HTTP_AUTHORIZATION", ""))
        if not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
            start_response(
                "401 Unauthorized", [("WWW-Authenticate", "Bearer"), ("Content-Type", "text/plain")]
            )
            return [b"The token that this process was given for its metrics is needed.\n"]
        if environ.get("PATH_INFO") != "/metrics":
            start_response("404 Not Found", [("Content-Type", "text/plain")])
            return [b"Only /metrics is here.\n"]
        return answer(environ, start_response)  # type: ignore[no-any-return, unused-ignore]

    server = make_server(host, int(port), application, MetricsServer, _Silent)
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return server
