"""What the conformance suite of the stores needs: a web server with ranges, and a way to put files in."""

from __future__ import annotations

import http.server
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass

from trainmaster.store import Store


@dataclass(frozen=True)
class Written:
    store: Store
    put: Callable[[str, bytes], object]


class RangeHandler(http.server.SimpleHTTPRequestHandler):
    """The standard handler, and the ranges that it lacks."""

    has_etags = False  # otherwise only the time of a file tells that it was changed
    knows_conditions = False

    def do_GET(self) -> None:
        wanted = self.headers.get("Range", "")
        path = self.translate_path(self.path)
        if not wanted or not os.path.isfile(path):
            super().do_GET()
            return
        if self.knows_conditions and self.headers.get("If-Match", self._etag()) != self._etag():
            self.send_error(412)
            return
        first, last = (int(number) for number in wanted.removeprefix("bytes=").split("-"))
        with open(path, "rb") as file:
            file.seek(first)
            data = file.read(last - first + 1)
        if not data:
            self.send_error(416)
            return
        self.send_response(206)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Last-Modified", self.date_time_string(int(os.path.getmtime(path))))
        self.end_headers()
        self.wfile.write(data)

    def end_headers(self) -> None:
        if self.has_etags:
            self.send_header("ETag", self._etag())
        super().end_headers()

    def _etag(self) -> str:
        path = self.translate_path(self.path)
        return f'"{os.stat(path).st_mtime_ns:x}"' if os.path.isfile(path) else '""'

    def log_message(self, format: str, *args: object) -> None:
        pass


class RangeAndEtagHandler(RangeHandler):
    has_etags = True


class ConditionHandler(RangeHandler):
    has_etags = knows_conditions = True


class StallingHandler(http.server.BaseHTTPRequestHandler):
    """Half of what was asked for, and then nothing more, until the server is told to end."""

    end = threading.Event()

    def do_GET(self) -> None:
        first, last = (int(n) for n in self.headers["Range"].removeprefix("bytes=").split("-"))
        size = last - first + 1
        self.send_response(206)
        self.send_header("Content-Length", str(size))
        self.end_headers()
        self.wfile.write(b"x" * (size // 2))
        self.wfile.flush()
        self.end.wait(20)

    def log_message(self, format: str, *args: object) -> None:
        pass
