"""A real HTTP server that keeps runs by the contract of the API, and can be away, slow or lose an answer."""

from __future__ import annotations

import gzip
import json
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "tm_secret"


@dataclass
class KeptRun:
    fields: dict[str, Any]
    points: list[tuple[str, int, float | str]] = field(default_factory=list)
    parameters: dict[str, Any] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    lineage: dict[str, Any] = field(default_factory=dict)
    values: dict[tuple[str, int, int], Any] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    sequences: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    states: list[str] = field(default_factory=list)


@dataclass
class RunServer:
    """`hook(method, path)` is called when a request has been kept and before it is answered; False loses the answer."""

    url: str = ""
    runs: dict[str, KeptRun] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)
    hook: Any = lambda method, path: True
    refuse: Any = lambda method, path, body: None

    @property
    def run(self) -> KeptRun:
        [run] = self.runs.values()
        return run

    def take(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        words = path.strip("/").split("/")[2:]  # without api/v1
        if words == ["me"]:
            return 200, {"username": "alice", "teams": {"vision": "lead"}, "token_team": "vision"}
        if words == ["runs"]:
            self.runs.setdefault(body["run_id"], KeptRun(body, states=["running"]))
            return 201, {"id": body["run_id"]}
        run = self.runs[words[1]]
        match [method, *words[2:]]:
            case ["POST", "log"]:
                if body["sequence"] > run.sequences[body["source"]]:
                    run.sequences[body["source"]] = body["sequence"]
                    for series in body.get("metrics", ()):
                        run.points += [(series["key"], step, value) for step, value, _ in series["points"]]
                for name in ("parameters", "tags", "lineage"):
                    getattr(run, name).update(body.get(name, {}))
                return 200, {"sequence": body["sequence"]}
            case ["POST", "finish"]:
                run.states.append(body["state"])
            case ["PATCH"]:
                run.states.append(body["state"])
            case ["POST", "values"]:
                run.values[body["key"], int(body["step"]), int(body["index"])] = body
            case ["PUT", "files", *parts]:
                run.files["/".join(parts)] = body
        return 200, {}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Any

    def answer(self) -> None:
        kept: RunServer = self.server.kept
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.headers.get("content-encoding") == "gzip":
            raw = gzip.decompress(raw)
        kind = self.headers.get("content-type", "")
        body = (
            json.loads(raw)
            if kind == "application/json"
            else parts(kind, raw)
            if "multipart" in kind
            else raw
        )
        with self.server.lock:
            kept.requests.append((self.command, self.path))
            if self.headers.get("authorization") != f"Bearer {TOKEN}":
                status, answer = 401, {"code": "not_authenticated", "detail": "Log in first"}
            else:
                refused = kept.refuse(self.command, self.path, body)
                status, answer = refused or kept.take(self.command, self.path, body)
        if not kept.hook(self.command, self.path):
            self.close_connection = True
            return
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_PATCH = answer

    def log_message(self, format: str, *args: Any) -> None:
        return


def parts(kind: str, raw: bytes) -> dict[str, Any]:
    """The fields of a multipart body; a file as (name, bytes)."""
    boundary = kind.partition("boundary=")[2].encode()
    fields: dict[str, Any] = {}
    for part in raw.split(b"--" + boundary)[1:-1]:
        head, _, content = part[2:-2].partition(b"\r\n\r\n")
        names = dict(
            word.strip().split("=", 1)
            for line in head.decode().splitlines()
            if line.lower().startswith("content-disposition")
            for word in line.split(";")[1:]
        )
        name = names["name"].strip('"')
        fields[name] = (names["filename"].strip('"'), content) if "filename" in names else content.decode()
    return fields


@contextmanager
def serving(kept: RunServer, port: int = 0) -> Iterator[RunServer]:
    """The same `kept` may be served again, at the same port: the platform is back."""
    ThreadingHTTPServer.allow_reuse_address = True
    server: Any = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads, server.kept, server.lock = True, kept, threading.Lock()
    kept.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield kept
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def unused_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
