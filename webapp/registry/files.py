"""A small file among those of a version, as it was registered."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from platform_core.distribution.content.layout import stored_path
from platform_core.distribution.content.manifest import from_document
from platform_core.errors import TrainmasterError
from platform_core.units import format_bytes
from trainmaster.store import open_store
from webapp.registry.models import ModelVersion


def outermost(paths: Iterable[str], name: str) -> str:
    """The path of the file of this name that lies in the fewest folders; "" for none."""
    found = [path for path in paths if path == name or path.endswith(f"/{name}")]
    return min(found, key=lambda path: (path.count("/"), path), default="")


def read(version: ModelVersion, name: str, most: int) -> tuple[str, bytes]:
    """Its path and its bytes. Raises request_invalid where it is absent, too large, or no longer what it was."""
    if version.manifest is None:
        raise TrainmasterError("request_invalid", what=f"{name} of {version}", why="the version has no files")
    files = {entry.path: entry for entry in from_document(version.manifest.document).files}
    path = outermost(files, name)
    if not path or files[path].size > most:
        size = format_bytes(files[path].size) if path else "nothing"
        why = f"it has {size}; the limit is {format_bytes(most)}"
        raise TrainmasterError("request_invalid", what=f"{name} of {version}", why=why)
    url = version.manifest.source_url
    data = open_store(url).read_range(stored_path(url, files[path]), 0, files[path].size)
    if hashlib.sha256(data).hexdigest() != files[path].sha256:
        why = "its bytes have changed since it was registered"
        raise TrainmasterError("request_invalid", what=path, why=why)
    return path, data
