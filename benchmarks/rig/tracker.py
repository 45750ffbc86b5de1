"""A BitTorrent tracker that knows everybody from the start and hears who is done (BEP 3, 23)."""

from __future__ import annotations

import http.server
import socket
import threading
import time
from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qs, urlsplit

from benchmarks.rig.torrent_file import bencode


class Tracker:
    def __init__(self, host: str, peers: Iterable[str], peer_port: int) -> None:
        addresses = {each: socket.inet_aton(each) + peer_port.to_bytes(2, "big") for each in peers}
        self.done_at: dict[str, float] = {}  # by address
        self.news = threading.Condition()
        tracker = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                caller = str(self.client_address[0])
                told = {key: values[0] for key, values in parse_qs(urlsplit(self.path).query).items()}
                with tracker.news:
                    if told.get("event") == "completed":
                        tracker.done_at[caller] = time.monotonic()
                    tracker.news.notify_all()
                others = b"".join(address for name, address in addresses.items() if name != caller)
                answer = bencode({"interval": 1800, "peers": others})
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *arguments: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer((host, 0), Handler)
        self.url = f"http://{host}:{self._server.server_port}/announce"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
