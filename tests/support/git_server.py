"""A real git server over HTTP on a loopback port: `git http-backend`, with or without a password."""

from __future__ import annotations

import base64
import os
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit


class Repository:
    """A repository with a work tree, served as its bare clone."""

    def __init__(self, root: Path, name: str = "project") -> None:
        self.work, self.bare = root / name, root / "served" / f"{name}.git"
        self.work.mkdir(parents=True)
        self._git(self.work, "init", "--quiet", "--initial-branch=main")
        self._git(root, "init", "--quiet", "--bare", "--initial-branch=main", str(self.bare))

    def commit(self, files: Mapping[str, str], message: str = "Change") -> str:
        for path, content in files.items():
            place = self.work / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(content)
        return self.keep(message)

    def keep(self, message: str) -> str:
        """Commits whatever lies in the work tree."""
        self._git(self.work, "add", "--all")
        identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
        self._git(self.work, *identity, "commit", "--quiet", "--message", message)
        self._git(self.work, "push", "--quiet", "--force", str(self.bare), "HEAD:main")
        return self._git(self.work, "rev-parse", "HEAD").strip()

    def tag(self, name: str, *, annotated: bool = False) -> None:
        """The newest commit, in the served repository."""
        identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
        self._git(
            self.work, *identity, "tag", name, *(["--annotate", "--message=Release"] if annotated else [])
        )
        self._git(self.work, "push", "--quiet", str(self.bare), name)

    def _git(self, folder: Path, *arguments: str) -> str:
        environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
        done = subprocess.run(
            ["git", *arguments], cwd=folder, env=environment, check=True, capture_output=True, text=True
        )
        return done.stdout


@contextmanager
def serve(root: Path, password: str = "") -> Iterator[str]:
    """Serves the bare repositories below `root`. Yields the address of the folder."""

    class Handler(_Backend):
        served, expected = root, password

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class _Backend(BaseHTTPRequestHandler):
    served: Path
    expected: str

    def do_GET(self) -> None:
        self._answer()

    do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing on the terminal."""

    def _answer(self) -> None:
        if self.expected and not self._is_known():
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.end_headers()
            return
        parts = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.served),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "REQUEST_METHOD": self.command,
            "PATH_INFO": parts.path,
            "QUERY_STRING": parts.query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(length),
        }
        backend = ["git", "http-backend"]
        done = subprocess.run(
            backend, input=self.rfile.read(length), env=environment, capture_output=True, check=False
        )
        head, _, body = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
        self.send_response(int(headers.pop("Status", "200").split()[0]))
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _is_known(self) -> bool:
        kind, _, given = self.headers.get("Authorization", "").partition(" ")
        return kind == "Basic" and base64.b64decode(given).decode().endswith(f":{self.expected}")
