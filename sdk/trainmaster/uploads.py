"""Files on their way to the platform: several at once, and none that it has already."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import quote

from trainmaster.answers import UnexpectedAnswer
from trainmaster.connection import UPLOAD_TIMEOUT, ClientError, Connection, Sent, segment

AT_ONCE = 4
TAKEN_AT_ONCE = 1000  # files of one request; the platform refuses more
TAKEN_BYTES = 4 << 30  # of them, as the platform may have to copy them

File = tuple[str, Path]  # its path in the upload, and where it lies


@dataclass(frozen=True, slots=True)
class Earlier:
    """An upload that the team completed before: its manifest, and SHA-256 to size of its files. By default none."""

    manifest: str = ""
    sizes: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Uploaded:
    manifest: str = ""
    kept: int = 0  # files that the platform had already
    kept_bytes: int = 0


@dataclass(slots=True)
class Uploading:
    """One upload. `sent` is called with the number of bytes of each part that is there, by one thread at a time."""

    connection: Connection
    sent: Sent
    earlier: Earlier = Earlier()
    result: Uploaded = field(default_factory=Uploaded)
    _lock: Lock = field(default_factory=Lock)

    def run(
        self, begun: Mapping[str, Any], files: Sequence[File], executable: Sequence[str] = ()
    ) -> Uploaded:
        """Send what `begun`, the answer of the platform, does not have yet; complete it. Raises ClientError.

        `executable`: paths of files that are programs."""
        upload = f"uploads/{segment(str(begun.get('id', '')))}"
        received = begun.get("files") or {}
        pool = ThreadPoolExecutor(AT_ONCE, "upload")
        try:
            sizes = frozenset(self.earlier.sizes.values())
            digests = pool.map(partial(_digest, received, sizes), files)
            missing = self._missing(upload, received, zip(files, digests, strict=True))
            for done in [pool.submit(self._send, upload, *file) for file in missing]:
                done.result()
        finally:
            pool.shutdown(cancel_futures=True)
        named = {"files": len(files)} | ({"executable": list(executable)} if executable else {})
        made = self.connection.call("POST", f"{upload}/complete", json=named)
        if not isinstance(made, dict) or not made.get("manifest"):
            raise UnexpectedAnswer("The server completed the upload without naming its manifest.")
        self.result.manifest = str(made["manifest"])
        return self.result

    def _missing(
        self, upload: str, received: Mapping[str, Any], files: Iterable[tuple[File, str]]
    ) -> Iterator[File]:
        """Those that must be sent; the others the platform has, or takes from the earlier upload."""
        known: dict[str, tuple[Path, str]] = {}
        size = 0
        for (path, source), sha256 in files:
            if sha256 and sha256 == (received.get(path) or {}).get("sha256"):
                self._keep(received[path]["size"])
            elif sha256 in self.earlier.sizes:
                known[path] = source, sha256
                size += self.earlier.sizes[sha256]
            else:
                yield path, source
            if len(known) == TAKEN_AT_ONCE or size >= TAKEN_BYTES:
                yield from self._take(upload, known)
                known, size = {}, 0
        if known:
            yield from self._take(upload, known)

    def _take(self, upload: str, known: Mapping[str, tuple[Path, str]]) -> Iterator[File]:
        """From the earlier upload; the files that it does not have any more."""
        files = [{"path": path, "sha256": sha256} for path, (_, sha256) in known.items()]
        named = {"manifest": self.earlier.manifest, "files": files}
        answer: Any = self.connection.call("POST", f"{upload}/earlier", json=named, timeout=UPLOAD_TIMEOUT)
        taken = set(answer["taken"])
        for path, (source, sha256) in known.items():
            if path in taken:
                self._keep(self.earlier.sizes[sha256])
            else:
                yield path, source

    def _keep(self, size: int) -> None:
        self.result.kept += 1
        self.result.kept_bytes += size
        self._told(size)

    def _send(self, upload: str, path: str, source: Path) -> None:
        self.connection.send_file(f"{upload}/files/{quote(path)}", source, self._told)

    def _told(self, count: int) -> None:
        with self._lock:
            self.sent(count)


def _digest(received: Mapping[str, Any], sizes: Collection[int], file: File) -> str:
    """SHA-256 of a file that the platform may have, as it was received or an earlier one has its size; "" of others."""
    path, source = file
    try:
        size = source.stat().st_size
        if size != (received.get(path) or {}).get("size") and size not in sizes:
            return ""
        with source.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise ClientError(f"{source} cannot be read: {error.strerror or error}.") from error


def begin(
    connection: Connection, kind: str, team: str, name: str, paths: Sequence[str], resume: bool
) -> Mapping[str, Any]:
    """A new upload; with `resume` the newest that was broken off, unless it has files that are not among these."""
    named = {"kind": kind, "team": team, "name": name}
    if resume:
        begun: Any = connection.call("POST", "uploads", json={**named, "resume": True})
        if set(begun.get("files") or ()) <= set(paths):
            return dict(begun)
    return dict(connection.call("POST", "uploads", json=named))
