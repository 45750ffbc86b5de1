"""Datasets that stay where they lie: their files on a shared file system are linked into an attempt, not copied."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from agent.manifests import Manifests
from platform_core.errors import TrainmasterError
from platform_core.node.wanted import ArtifactReference, Launch

if TYPE_CHECKING:
    from agent.attempts.preparation import Fetch


def place_of(source_url: str) -> Path:
    """The folder of a file:// URL."""
    return Path(unquote(urlsplit(source_url).path))


def mounting(manifests: Manifests, launch: Launch, fetch: Fetch) -> Fetch:
    """As `fetch`; the dataset of a launch that wants it mounted is linked."""
    if not launch.mount_dataset or launch.dataset is None:
        return fetch
    return partial(_link_or_fetch, manifests, launch.dataset.manifest_id, fetch)


def _link_or_fetch(
    manifests: Manifests,
    mounted: str,
    fetch: Fetch,
    artifact: ArtifactReference,
    into: Path,
    on_bytes: Callable[[int], None],
) -> None:
    if artifact.manifest_id == mounted:
        link(manifests, artifact, into, on_bytes)
    else:
        fetch(artifact, into, on_bytes)


def link(
    manifests: Manifests, artifact: ArtifactReference, into: Path, on_bytes: Callable[[int], None]
) -> None:
    """A symbolic link for each file of the snapshot, so that the attempt sees these and no others.

    Sizes are compared, not digests. Raises source_unavailable where a file is not there, and source_changed.
    """
    manifest = manifests.wait_for(artifact.manifest_id, lambda: on_bytes(0))
    place = place_of(artifact.source_url)
    for file in manifest.files:
        source, target = place / file.path, into / file.path
        try:
            size = source.stat().st_size
        except OSError as error:
            raise _missing(place, source, error) from error
        if size != file.size:
            sentence = f"{source} has {size} bytes, and {file.size} when its snapshot was made"
            raise TrainmasterError("source_changed", sentence, source=str(source))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        target.symlink_to(source)
        on_bytes(0)


def _missing(place: Path, source: Path, error: OSError) -> TrainmasterError:
    """A folder that has other files is mounted, and then the file is gone on every node."""
    if isinstance(error, FileNotFoundError) and place.is_dir() and any(place.iterdir()):
        sentence = f"{source} is gone since its snapshot was made"
        return TrainmasterError("source_changed", sentence, source=str(source))
    why = f"{error.strerror or error}; is this folder mounted on this node?"
    return TrainmasterError("source_unavailable", source=str(source), why=why)
