"""A web server for files by ranges, as a process: `python -m benchmarks.rig.store FOLDER ADDRESS`.

Prints its port. Lines on stdin: `sent` (prints the bytes of files sent so far), `behave ok|503|stall`.
"""

from __future__ import annotations

import http.server
import os
import sys
import threading
from pathlib import Path
from typing import Any


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    folder = Path()
    sent = 0
    behaviour = "ok"
    answering = threading.Event()
    lock = threading.Lock()

    def do_GET(self) -> None:
        if Handler.behaviour == "503":
            self.send_error(503)
            return
        with (self.folder / self.path.lstrip("/")).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            first, _, last = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")
            start, end = int(first), min(int(last or size - 1), size - 1) + 1
            self.send_response(206)
            self.send_header("Content-Length", str(end - start))
            self.send_header("ETag", f'"{size}"')
            self.end_headers()
            self.wfile.flush()
            while start < end:
                Handler.answering.wait()
                done = os.sendfile(self.connection.fileno(), file.fileno(), start, min(end - start, 1 << 18))
                start += done
                with Handler.lock:
                    Handler.sent += done

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Those who hang up in the middle are no news."""


def main() -> None:
    Handler.folder = Path(sys.argv[1])
    Handler.answering.set()
    server = Server((sys.argv[2], 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    for line in sys.stdin:
        match line.split():
            case ["behave", how]:
                Handler.behaviour = how
                (Handler.answering.clear if how == "stall" else Handler.answering.set)()
            case _:
                print(Handler.sent, flush=True)


if __name__ == "__main__":
    main()
