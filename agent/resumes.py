"""The checkpoint that an attempt goes on from: this node's own copies first, then the store.

What an attempt saved on this node stays here when the attempt goes, for the next one of its job. Shards of other nodes
are not fetched before the start: a rank that needs one, and finds none among its peers, asks for it in `wanted-files`
(see `trainmaster.checkpoints.wanted`), and gets it or a file `PATH.damaged` with the reason.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path

from agent.attempts import records
from agent.attempts.preparation import RESUME, Fetch, read_twice, trouble_with
from agent.job_files import JobPath
from agent.manifests import Manifests
from agent.work_folder import WorkFolder, WorkFolders
from platform_core.checkpointing.parts import DESCRIPTION
from platform_core.distribution.content.manifest import FileEntry, Manifest
from platform_core.node.wanted import ArtifactReference, Launch
from trainmaster.checkpoints.wanted import NAME as WANTED
from trainmaster.checkpoints.wanted import REFUSED
from trainmaster.store.copying import fetch as fetch_files
from trainmaster.store.damage import is_damage

log = logging.getLogger(__name__)

FOLDER = "kept-checkpoints"  # with a folder for each job, and in it one for the attempt that left it last
KEPT_SECONDS = 24 * 3600
LEAST_FREE = 0.1  # of the disk; with less nothing is kept
INDEX = "tensors.json"  # a checkpoint with shards has it
_SHARD = re.compile(r"rank-\d{5,}-\d{3,}\.safetensors")
_MOST_ENTRIES = 10_000
_LARGEST_REQUEST = 16 << 20
_LONGEST_SENTENCE = 2_000
BLOCK = 8 << 20


class Resumes:
    """Used by the threads of attempts."""

    def __init__(self, data: Path, manifests: Manifests, *, whole: bool) -> None:
        """`whole`: every file is fetched before the start, as files that come later are not the job's to read."""
        self._root, self._folders = data / FOLDER, WorkFolders(data)
        self._manifests, self._whole = manifests, whole

    def fetch_for(self, launch: Launch, fetch: Fetch) -> Fetch:
        """As `fetch`; the checkpoint of the launch comes by way of the copies of this node."""
        return fetch if launch.resume is None else partial(self._fetch, launch, fetch)

    def _fetch(
        self,
        launch: Launch,
        fetch: Fetch,
        artifact: ArtifactReference,
        into: Path,
        on_bytes: Callable[[int], None],
    ) -> None:
        if artifact != launch.resume:
            fetch(artifact, into, on_bytes)
            return
        manifest = self._manifests.wait_for(artifact.manifest_id, lambda: on_bytes(0))
        own = sum(self._copied(launch.job_id, entry, into, on_bytes) for entry in manifest.files)
        later = set() if self._whole else _later(launch, artifact, manifest, into)
        names = {entry.path for entry in manifest.files} - later
        fetch_files(manifest, artifact.source_url, into, on_bytes, artifact.etags_of(manifest), names)
        left = sum(entry.size for entry in manifest.files if entry.path in later)
        log.info(
            "the checkpoint of %s: %d of %d bytes were on this node, %d are left until a rank asks for them",
            launch.job_id, own, manifest.total_bytes, left,
        )  # fmt: skip

    def _copied(self, job_id: str, entry: FileEntry, into: Path, on_bytes: Callable[[int], None]) -> int:
        """Bytes that a copy of this node had of the file; 0 where there is none with its digest."""
        target = into / entry.path
        if target.exists():
            return 0
        for source in self._copies(job_id):
            with suppress(OSError):
                if _copy(source / entry.path, target, entry, on_bytes):
                    return entry.size
        return 0

    def _copies(self, job_id: str) -> Iterator[JobPath]:
        """Folders of checkpoints of this job, of attempts that are here and of the last that went."""
        for folder in self._folders:
            record = records.read_record(folder)
            if record is not None and record.launch.job_id == job_id:
                yield from _checkpoints(folder.path)
        for kept in _subfolders(self._root / job_id):
            yield from _checkpoints(kept)

    def keep(self, folder: WorkFolder, job_id: str, *, succeeded: bool) -> None:
        """Before the folder of an attempt goes: what it saved here, or went on from, takes the place of what its job
        left before. Costs no copy."""
        self.clean_up()
        job = self._root / os.path.basename(job_id)
        if succeeded:
            shutil.rmtree(job, ignore_errors=True)
            return
        saved = [name.partition("/")[0] for name in (path.name for path in _checkpoints(folder.path))]
        if not saved or self._is_scarce():
            return
        place, older = job / folder.attempt_id, _subfolders(job)
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.rename(folder.path / saved[0], place / saved[0])  # itself, were it a link
        for other in older:
            if other != place:
                shutil.rmtree(other, ignore_errors=True)

    def clean_up(self) -> None:
        """Removes what is old, and all where the disk is nearly full."""
        scarce = self._is_scarce()
        for job in _subfolders(self._root):
            with suppress(OSError):
                if scarce or time.time() - job.stat().st_mtime > KEPT_SECONDS:
                    shutil.rmtree(job, ignore_errors=True)

    def _is_scarce(self) -> bool:
        usage = shutil.disk_usage(self._root.parent)
        return usage.free < LEAST_FREE * usage.total

    def bring_wanted(self, launch: Launch, folder: WorkFolder) -> int:
        """Fetches what ranks ask for; how many files came. Raises what the store does, to be called again."""
        artifact = launch.resume
        asked = _asked(folder)
        if artifact is None or not asked:
            return 0
        manifest = self._manifests.wait_for(artifact.manifest_id, lambda: None)
        lacking = {
            e.path for e in manifest.files if e.path in asked and not (folder.resume / e.path).exists()
        }
        etags = artifact.etags_of(manifest)
        for path in sorted(lacking):
            bring = partial(
                fetch_files, manifest, artifact.source_url, folder.resume, lambda _: None, etags, {path}
            )
            try:
                read_twice(bring)
            except Exception as error:
                if not is_damage(error, artifact.source_url):
                    raise
                sentence = trouble_with(RESUME, artifact, error)
                JobPath(folder.path, f"resume/{path}{REFUSED}").replace(sentence.encode())
        return len(lacking)


def refusal(folder: WorkFolder) -> str:
    """Why a shard that a rank asked for did not come; "" while none was refused."""
    resume = JobPath(folder.path, "resume")
    refused = (name for name in resume.entries(_MOST_ENTRIES) if name.endswith(REFUSED))
    return next(
        ((resume / name).read(0, _LONGEST_SENTENCE).decode("utf-8", "replace") for name in refused), ""
    )


def _later(launch: Launch, artifact: ArtifactReference, manifest: Manifest, into: Path) -> set[str]:
    """Shards that are not here, of a checkpoint whose ranks know how to ask for them: one that this job saved."""
    paths = {entry.path for entry in manifest.files}
    own = launch.checkpoint_upload_url and artifact.source_url.startswith(f"{launch.checkpoint_upload_url}/")
    if not own or not {INDEX, DESCRIPTION} <= paths:
        return set()
    return {path for path in paths if _SHARD.fullmatch(path) and not (into / path).exists()}


def _copy(source: JobPath, target: Path, entry: FileEntry, on_bytes: Callable[[int], None]) -> bool:
    """Whether it had the bytes of the manifest; only then is there a file."""
    with source.open() as file:
        if os.fstat(file.fileno()).st_size != entry.size:
            return False
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = target.with_name(f".own-{target.name}")
        digest = hashlib.sha256()
        try:
            with unfinished.open("wb", buffering=0) as copy:
                while block := file.read(BLOCK):
                    digest.update(block)
                    copy.write(block)
                    on_bytes(len(block))
            if digest.hexdigest() != entry.sha256:
                return False
            os.replace(unfinished, target)
        finally:
            unfinished.unlink(missing_ok=True)
    return True


def _checkpoints(folder: Path) -> list[JobPath]:
    """The newest first; last what an attempt itself went on from."""
    saved = JobPath(folder, "checkpoints").entries(_MOST_ENTRIES)
    names = [f"checkpoints/{name}" for name in reversed(saved) if not name.startswith(".")]
    paths = [JobPath(folder, name) for name in (*names, "resume")]
    return [path for path in paths if (path / DESCRIPTION).exists()]


def _asked(folder: WorkFolder) -> set[str]:
    names: set[str] = set()
    with suppress(OSError), os.scandir(folder.path) as scanned:
        requests = [entry.name for entry in islice(scanned, _MOST_ENTRIES) if entry.name.startswith(WANTED)]
        for name in requests:
            text = JobPath(folder.path, name).read(0, _LARGEST_REQUEST)
            names.update(text.decode("utf-8", "replace").splitlines())
    return names


def _subfolders(folder: Path) -> list[Path]:
    with suppress(OSError):
        return [path for path in folder.iterdir() if path.is_dir() and not path.is_symlink()]
    return []
