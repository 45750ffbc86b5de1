"""Datasets on this node: received through the mesh of model transfers, kept as a cache, linked into attempts.

A dataset is held under its manifest, whoever uses it: a second attempt on this node fetches nothing, and nodes of one
gang fetch from each other. The platform says with each launch which dataset it may use; nothing else is linked.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from pathlib import Path

from agent.attempts.preparation import Fetch
from agent.files import read_json, write_atomically
from agent.transfer.orders.deployments import Deployments
from agent.transfer.orders.receiver import home_of
from platform_core.distribution.content.manifest import Manifest
from platform_core.errors import TrainmasterError
from platform_core.node.observed import TransferState
from platform_core.node.wanted import ArtifactReference, DeploymentWanted, Launch

ORDER = "data-"  # what the ids of their deliveries begin with; the server knows none of them as a deployment
FOLDER = "_datasets"  # beside the folders of teams, none of which has such a name
MOST_TOLD = 200
LOOK_EVERY_SECONDS = 0.05


def is_dataset(deployment_id: str) -> bool:
    return deployment_id.startswith(ORDER)


class DatasetCache:
    """`fetch_for` and `in_use` are called on the event loop, the fetches from the threads of attempts."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._deployments: Deployments | None = None
        self._loop = asyncio.get_running_loop()
        self._under_way: list[Path] = []

    def attach(self, deployments: Deployments) -> None:
        """Adds the transfers, which are made after the cache because they ask it what is in use."""
        self._deployments = deployments

    def in_use(self) -> Collection[Path]:
        """The datasets that attempts on this node use: their files have links there, and eviction frees nothing."""
        homes = (self._data / "models" / FOLDER).glob("man-*/*")
        return [*self._under_way, *(home for home in homes if _is_linked(home))]

    def fetch_for(self, launch: Launch, fetch: Fetch) -> Fetch:
        """As `fetch`; the dataset of the launch comes through the cache, and so does what was fetched ahead."""
        return partial(self._fetch, launch, fetch)

    def _fetch(
        self,
        launch: Launch,
        fetch: Fetch,
        artifact: ArtifactReference,
        into: Path,
        on_bytes: Callable[[int], None],
    ) -> None:
        order = launch.delivery
        if order is not None and artifact.manifest_id == order.artifact.manifest_id:
            self.bring(order, into, on_bytes)
        elif not self._take_ready(artifact, into, copied=artifact != launch.resume):
            fetch(artifact, into, on_bytes)

    def _take_ready(self, artifact: ArtifactReference, into: Path, *, copied: bool) -> bool:
        """Whether it was here, as on a spare node. `copied`: the job may write to it."""
        if self._deployments is None:
            return False
        manifest = self._transfers.manifest_here(artifact.manifest_id)
        order = f"{ORDER}{artifact.manifest_id}"
        if manifest is None or self._transfers.progress(order).state is not TransferState.COMPLETE:
            return False
        home = home_of(f"{FOLDER}/{artifact.manifest_id}", "1", self._data)
        self._under_way.append(home)
        try:
            if not _is_as_it_came(manifest, home, self._record(manifest.id)):
                return False
            _link_all(manifest, home, into, self._record(manifest.id), copied=copied)
        except OSError:
            return False  # evicted meanwhile
        finally:
            self._under_way.remove(home)
        return True

    def home(self, manifest_id: str) -> Path | None:
        """The folder in which it lies whole, as it came; its files may be linked and are read-only."""
        manifest = self._transfers.manifest_here(manifest_id)
        whole = self._transfers.progress(f"{ORDER}{manifest_id}").state is TransferState.COMPLETE
        home = home_of(f"{FOLDER}/{manifest_id}", "1", self._data)
        if manifest is None or not whole or not _is_as_it_came(manifest, home, self._record(manifest_id)):
            return None
        _keep_stamps(manifest, home, self._record(manifest_id))
        return home

    def bring(self, order: DeploymentWanted, into: Path, on_bytes: Callable[[int], None]) -> None:
        """Receives the dataset unless it is here, and links its files into this folder."""
        home = home_of(order.model, order.version, self._data)
        self._under_way.append(home)
        try:
            manifest = self._received(order, on_bytes)
            if not _is_as_it_came(manifest, home, self._record(manifest.id)):
                self._call(self._transfers.evict, manifest.id, "its files were changed by a job")
                manifest = self._received(order, on_bytes)
            _link_all(manifest, home, into, self._record(manifest.id))
        finally:
            self._under_way.remove(home)

    def _received(self, order: DeploymentWanted, on_bytes: Callable[[int], None]) -> Manifest:
        """Waits until all of it is here. Raises what the delivery failed with; it goes on by itself meanwhile."""
        self._call(self._transfers.want, order)
        while True:
            progress = self._transfers.progress(order.deployment_id)
            manifest = self._transfers.manifest_here(order.artifact.manifest_id)
            if progress.state is TransferState.COMPLETE and manifest is not None:
                return manifest
            if progress.state in (TransferState.FAILED, TransferState.EVICTED):
                raise TrainmasterError(progress.error_code or "disk_full", progress.error)
            on_bytes(0)
            time.sleep(LOOK_EVERY_SECONDS)

    @property
    def _transfers(self) -> Deployments:
        assert self._deployments is not None
        return self._deployments

    def _call(self, work: Callable[..., object], *given: object) -> None:
        """Runs it on the event loop, and waits for it."""

        async def run() -> None:
            made = work(*given)
            if asyncio.iscoroutine(made):
                await made

        asyncio.run_coroutine_threadsafe(run(), self._loop).result()

    def _record(self, manifest_id: str) -> Path:
        return _record(self._data, manifest_id)


def held(data: Path) -> tuple[str, ...]:
    """The manifests of the datasets that are whole on this node, for the scheduler; the newest where they are many."""
    homes = (data / "models" / FOLDER).glob("man-*/*")
    records = [(_record(data, home.parent.name), home.parent.name) for home in homes]
    whole = [(record.stat().st_mtime, name) for record, name in records if record.exists()]
    return tuple(name for _, name in sorted(whole, reverse=True)[:MOST_TOLD])


def _record(data: Path, manifest_id: str) -> Path:
    return data / "transfer" / manifest_id / "stamps.json"


def _is_linked(home: Path) -> bool:
    """Every file of a home is linked into an attempt, or none."""
    for folder, _, names in os.walk(home):
        for name in names:
            with suppress(OSError):
                return os.stat(os.path.join(folder, name)).st_nlink > 1
    return False


def _is_as_it_came(manifest: Manifest, home: Path, record: Path) -> bool:
    """Jobs without a system user of their own can write through their links; whether one has."""
    stamps = read_json(record)
    return stamps is None or all(_stamp(home / file.path) == stamps.get(file.path) for file in manifest.files)


def _stamp(path: Path) -> list[int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return [status.st_size, status.st_mtime_ns]


def _keep_stamps(manifest: Manifest, home: Path, record: Path) -> None:
    """What tells later whether a job has written to the files."""
    if not record.exists():
        for file in manifest.files:
            os.chmod(home / file.path, 0o444)
        stamps = {file.path: _stamp(home / file.path) for file in manifest.files}
        write_atomically(record, json.dumps(stamps).encode())


def _link_all(manifest: Manifest, home: Path, into: Path, record: Path, *, copied: bool = False) -> None:
    """The files of an attempt are links that it may read, and copies where it may write or the disk has no links."""
    _keep_stamps(manifest, home, record)
    for file in manifest.files:
        target = into / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        if copied or not _linked(home / file.path, target):
            shutil.copyfile(home / file.path, target)


def _linked(file: Path, target: Path) -> bool:
    with suppress(OSError):
        os.link(file, target)
        return True
    return False
