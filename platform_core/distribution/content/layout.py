"""Where a file of a manifest lies below its source URL: under its own path, or shared under its SHA-256."""

from __future__ import annotations

from platform_core.distribution.content.manifest import FileEntry

BY_DIGEST = "by-sha256"  # the last part of the URL of a folder whose files are named by their content


def is_by_digest(source_url: str) -> bool:
    return source_url.rstrip("/").rpartition("/")[2] == BY_DIGEST


def stored_path(source_url: str, entry: FileEntry) -> str:
    return entry.sha256 if is_by_digest(source_url) else entry.path
