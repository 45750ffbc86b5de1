"""Files on their way to the platform: several at once, and none that it has already."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import quote

from trainmaster.answers import UnexpectedAnswer
from trainmaster.connection import ApiError, ClientError, Connection, Sent, segment

AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Earlier:
    """An upload that the team completed before: its manifest, and SHA-256 to size of its files."""

    manifest: str
    sizes: Mapping[str, int]


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
    earlier: Earlier | None = None
    result: Uploaded = field(default_factory=Uploaded)
    _lock: Lock = field(default_factory=Lock)

    def run(self, begun: Mapping[str, Any], files: Sequence[tuple[str, Path]]) -> Uploaded:
        """Send what `begun`, the answer of the platform, does not have yet; complete it. Raises ClientError."""
        upload = f"uploads/{segment(str(begun.get('id', '')))}"
        received = begun.get("files") or {}
        pool = ThreadPoolExecutor(AT_ONCE, "upload")
        try:
            for done in [pool.submit(self._bring, upload, received, *file) for file in files]:
                done.result()
        finally:
            pool.shutdown(cancel_futures=True)
        made = self.connection.call("POST", f"{upload}/complete", json={"files": len(files)})
        if not isinstance(made, dict) or not made.get("manifest"):
            raise UnexpectedAnswer("The server completed the upload without naming its manifest.")
        self.result.manifest = str(made["manifest"])
        return self.result

    def _bring(self, upload: str, received: Mapping[str, Any], path: str, source: Path) -> None:
        if self._is_there(received.get(path), source) or self._taken(upload, path, source):
            size = source.stat().st_size
            with self._lock:
                self.result.kept += 1
                self.result.kept_bytes += size
            self._told(size)
        else:
            self.connection.send_file(f"{upload}/files/{quote(path)}", source, self._told)

    def _is_there(self, known: Mapping[str, Any] | None, source: Path) -> bool:
        return (
            known is not None
            and known["size"] == source.stat().st_size
            and known["sha256"] == _digest(source)
        )

    def _taken(self, upload: str, path: str, source: Path) -> bool:
        """Whether the platform took this file from the earlier upload."""
        if self.earlier is None or source.stat().st_size not in self.earlier.sizes.values():
            return False
        digest = _digest(source)
        if digest not in self.earlier.sizes:
            return False
        try:
            named = {"manifest": self.earlier.manifest, "sha256": digest}
            self.connection.call("POST", f"{upload}/earlier/{quote(path)}", json=named)
        except ApiError as error:
            if error.code in ("not_found", "verification_failed", "source_unavailable"):
                return False
            raise
        return True

    def _told(self, count: int) -> None:
        with self._lock:
            self.sent(count)


def _digest(source: Path) -> str:
    try:
        with source.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
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
