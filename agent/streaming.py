"""Datasets that come while the job runs: each shard just ahead of its use, on a bounded part of the disk.

streams/ID/ of an attempt belongs to the agent, and the job reads it:
files/         the files that are here; each one appears whole and verified
listing.json   path and bytes of all files       failed.json   those that cannot be had, with the reason
counts.json    samples of its files, by reader and path, as earlier attempts of the team on this node have counted
The loaders of the job name the files that they need next in attempts/ID/asks/, and what they count in counts/ there.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

from agent.attempts.preparation import Fetch
from agent.counts import KeptCounts
from agent.files import read_json, write_atomically
from agent.job_files import JobPath
from agent.manifests import Manifests
from agent.work_folder import WorkFolder
from platform_core.distribution.content.manifest import Manifest, from_json, to_json
from platform_core.loading.ahead import INDEX_FILE, Ask, Disk, Turn, plan
from platform_core.node.wanted import ArtifactReference, Launch
from trainmaster.store.copying import fetch
from trainmaster.store.damage import is_damage

log = logging.getLogger(__name__)

LOOK_EVERY_SECONDS = 0.1
PARALLEL = 4
SMALL, MOST_SMALL = 1 << 20, 64 << 20  # files such as a vocabulary are there before the start, and stay
TRIES = 2  # of a file whose bytes in the store are damaged; a store that is away is asked for ever
LONGEST_PAUSE_SECONDS = 30.0
MOST_LOADERS, LONGEST_ASK = 1_000, 4 << 20

# The folder in which a dataset lies whole on this node, by its manifest's id; None: nowhere.
Held = Callable[[str], Path | None]
StreamOf = Callable[[WorkFolder, Launch], "ShardStream | None"]


class ShardStream:
    """Of one attempt. `begin` blocks until the job may start; from then on `start` goes on in a thread of its own."""

    def __init__(
        self, folder: WorkFolder, artifact: ArtifactReference, held: Held, limit: int, kept: KeptCounts
    ) -> None:
        self._place, self._asks = folder.stream, JobPath(folder.path, "asks")
        self._kept, self._counts = kept, JobPath(folder.path, "counts")
        self._artifact, self._held, self._limit = artifact, held, limit
        self._home: Path | None = None
        self._coming: dict[str, Future[None]] = {}
        self._troubles: dict[str, tuple[int, float]] = {}  # tries, and when the next one is due
        self._failed: dict[str, str] = {}
        self._stop = Event()
        self._thread = Thread(target=self._run, name="stream", daemon=True)

    def begin(self, manifests: Manifests, on_bytes: Callable[[int], None]) -> None:
        """The small files and the first shard: what is wrong with the source is known before the job starts."""
        manifest = manifests.wait_for(self._artifact.manifest_id, lambda: on_bytes(0))
        (self._place / "files").mkdir(parents=True, exist_ok=True)
        write_atomically(self._place / "manifest.json", to_json(manifest).encode())
        listing = {"files": {file.path: file.size for file in manifest.files}}
        write_atomically(self._place / "listing.json", json.dumps(listing).encode())
        if counts := self._kept.read():
            write_atomically(self._place / "counts.json", json.dumps(counts).encode())
        self._home = self._held(manifest.id)
        first = [file.path for file in manifest.files if file.size > SMALL][:1]
        self._bring(manifest, [*_small(manifest), *(first or [manifest.files[0].path])], on_bytes)

    def start(self) -> None:
        """A later agent calls it again, and it goes on with what lies there."""
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    def join(self) -> None:
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        """Whatever goes wrong, it goes on: the job would wait for ever."""
        while not self._stop.is_set():
            try:
                self._go_on()
            except Exception:
                log.exception("the dataset of %s does not come for now", self._place.name)
                self._stop.wait(LONGEST_PAUSE_SECONDS)
        try:
            self._keep_counts()
        except (OSError, ValueError) as error:
            log.warning("the counts of %s are not kept: %s", self._place.name, error)

    def _keep_counts(self) -> None:
        listing = read_json(self._place / "listing.json")
        if listing is not None:
            self._kept.add(self._counts, listing["files"])

    def _go_on(self) -> None:
        manifest = from_json((self._place / "manifest.json").read_bytes())
        self._home, small = self._held(manifest.id), frozenset(_small(manifest))
        sizes = {file.path: file.size for file in manifest.files}
        here = {path for path in sizes if (self._place / "files" / path).exists()}
        self._failed = read_json(self._place / "failed.json") or {}
        for unfinished in (self._place / "files").glob(".unfinished-*"):
            unfinished.unlink(missing_ok=True)
        with ThreadPoolExecutor(PARALLEL, "stream") as pool:
            pause = LOOK_EVERY_SECONDS
            while not self._stop.wait(pause):
                began = time.monotonic()
                self._reap(here)
                turn = self._plan(sizes, here, small)
                for path in turn.delete:
                    (self._place / "files" / path).unlink(missing_ok=True)
                    here.discard(path)
                for path in turn.fetch:
                    self._coming[path] = pool.submit(self._bring, manifest, [path], self._raise_at_stop)
                pause = max(
                    LOOK_EVERY_SECONDS, 5 * (time.monotonic() - began)
                )  # a million files take a while

    def _plan(self, sizes: Mapping[str, int], here: set[str], small: frozenset[str]) -> Turn:
        now = time.monotonic()
        paused = [path for path, (_, due) in self._troubles.items() if due > now]
        disk = Disk(
            here=here,
            busy={*self._coming, *self._failed, *paused},
            kept=small,
            used=sum(sizes[path] for path in (*here, *self._coming)),
            limit=self._limit,
        )
        return plan(sizes, disk, self._read_asks(), PARALLEL - len(self._coming))

    def _read_asks(self) -> list[Ask]:
        """What a job wrote is not trusted: a name that the dataset does not have is passed over."""
        asks = []
        for name in self._asks.entries(MOST_LOADERS):
            with suppress(ValueError, KeyError, TypeError, RecursionError):
                given = json.loads((self._asks / name).read(0, LONGEST_ASK))
                asks.append(Ask(tuple(map(str, given["now"])), tuple(map(str, given["ahead"]))))
        return asks

    def _bring(self, manifest: Manifest, paths: list[str], on_bytes: Callable[[int], None]) -> None:
        into = self._place / "files"
        missing = [
            path for path in paths if self._home is None or not _linked(self._home / path, into / path)
        ]
        if missing:
            etags = self._artifact.etags_of(manifest)
            fetch(manifest, self._artifact.source_url, into, on_bytes, etags, only=missing)

    def _raise_at_stop(self, _: int) -> None:
        if self._stop.is_set():
            raise InterruptedError("it was stopped")

    def _reap(self, here: set[str]) -> None:
        for path, future in [item for item in self._coming.items() if item[1].done()]:
            del self._coming[path]
            error = future.exception()
            if error is None:
                here.add(path)
                self._troubles.pop(path, None)
            elif not isinstance(error, InterruptedError):
                self._note(path, error)

    def _note(self, path: str, error: BaseException) -> None:
        tries = self._troubles.get(path, (0, 0.0))[0] + 1
        if isinstance(error, Exception) and is_damage(error, self._artifact.source_url) and tries >= TRIES:
            self._failed[path] = str(error)
            write_atomically(self._place / "failed.json", json.dumps(self._failed).encode())
        pause = min(LONGEST_PAUSE_SECONDS, 2.0 ** (tries - 1))
        self._troubles[path] = tries, time.monotonic() + pause
        level = logging.WARNING if tries == 1 or path in self._failed else logging.DEBUG
        log.log(level, "%s does not come: %.300s", path, error)


def beginning(stream_of: StreamOf, manifests: Manifests, launch: Launch, fetch: Fetch) -> Fetch:
    """As `fetch`; of a dataset that is streamed only as much as the job starts with."""
    if not launch.stream_dataset or launch.dataset is None:
        return fetch
    streamed = launch.dataset.manifest_id

    def fetch_or_begin(artifact: ArtifactReference, into: Path, on_bytes: Callable[[int], None]) -> None:
        stream = stream_of(WorkFolder(into.parent), launch) if artifact.manifest_id == streamed else None
        if stream is None:
            fetch(artifact, into, on_bytes)
        else:
            stream.begin(manifests, on_bytes)

    return fetch_or_begin


def stream_of(held: Held, limit: int, folder: WorkFolder, launch: Launch) -> ShardStream | None:
    if not launch.stream_dataset or launch.dataset is None:
        return None
    kept = KeptCounts(folder.path.parents[1] / "counts", launch.team, launch.dataset.manifest_id)
    return ShardStream(folder, launch.dataset, held, limit, kept)


def _small(manifest: Manifest) -> tuple[str, ...]:
    small = [file for file in manifest.files if file.size <= SMALL]
    if sum(file.size for file in small) > MOST_SMALL:
        small = [file for file in manifest.files if file.path.rpartition("/")[2] == INDEX_FILE]
    return tuple(file.path for file in small)


def _linked(file: Path, target: Path) -> bool:
    target.parent.mkdir(parents=True, exist_ok=True)
    with suppress(OSError):
        target.unlink(missing_ok=True)
        os.link(file, target)
        return True
    return False  # it was evicted meanwhile, or lies on another disk
