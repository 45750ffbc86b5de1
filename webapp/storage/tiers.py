"""Datasets, models and checkpoints that nobody has used for long move to the cold store, and come back when they are
used; logs move there for good, and are read there.

The files are copied and compared, then their manifest names the new place, and the old files go a day later, and not
while a job or a deployment runs that began before: a streamed dataset is read for as long as its job runs. Meanwhile
agents read a cold version where it lies.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from django.conf import settings

from platform_core.distribution.content.layout import is_by_digest, stored_path
from platform_core.distribution.content.manifest import FileEntry, from_document
from platform_core.errors import TrainmasterError
from platform_core.units import DAY_MS, format_bytes
from trainmaster.store import Store, open_store
from trainmaster.store.copying import lasting_etag
from webapp.artifacts import queries as artifacts
from webapp.artifacts import services as artifact_services
from webapp.base.identity import now_ms
from webapp.checkpoints import queries as checkpoints
from webapp.checkpoints import services as checkpoint_services
from webapp.datasets import queries as datasets
from webapp.deployments import queries as deployments
from webapp.events import services as events
from webapp.jobs import queries as jobs
from webapp.jobs import services as job_services
from webapp.registry import queries as registry

if TYPE_CHECKING:
    from webapp.artifacts.models import Manifest

log = logging.getLogger(__name__)

KINDS = ("dataset", "model")
AT_ONCE = 20  # of each kind
MOVED = "moved"  # folder of a job's checkpoints, each in one of its own: where they were they may have shared files
READ_ON_MS = DAY_MS


def move() -> int:
    """One round. Returns how many versions were moved."""
    now, readers = now_ms(), _readers()
    _discard(now - READ_ON_MS, readers)
    if not settings.COLD_STORE_URL:
        return 0
    hot, cold = settings.STORE_URL.rstrip("/"), settings.COLD_STORE_URL.rstrip("/")
    before = now - settings.COLD_AFTER_DAYS * DAY_MS
    rows = [
        (row.id, cold)
        for chosen in (artifacts.uploaded(KINDS), checkpoints.resting(before))
        for row in artifacts.unused_since(before, AT_ONCE, readers, chosen)
    ]
    rows += [(row.id, hot) for row in artifacts.used_again(AT_ONCE)]
    _cool_logs(before)
    return sum(_moved(manifest_id, to) for manifest_id, to in rows)


def _cool_logs(before_ms: int) -> None:
    try:
        job_services.cool_logs(before_ms)
    except TrainmasterError as error:
        log.warning("logs are not moved to the cold store for now: %s", error)


def _readers() -> dict[str, int]:
    """Manifest → when the oldest began of those that read it now."""
    inputs = jobs.running_inputs()
    manifests = datasets.manifests(dataset for _, dataset, _, _ in inputs)
    reading = [(manifests.get(dataset, ""), began) for _, dataset, _, began in inputs]
    reading += [(registry.manifest_of(team, model), began) for team, _, model, began in inputs if model]
    readers: dict[str, int] = {}
    for manifest_id, began in [*reading, *deployments.reading()]:
        readers[manifest_id] = min(began, readers.get(manifest_id, began))
    readers.pop("", None)
    return readers


def _discard(moved_before_ms: int, readers: Mapping[str, int]) -> None:
    """The old files of what was moved before then, unless somebody reads them still."""
    reading = [manifest_id for manifest_id, began in readers.items() if began < moved_before_ms]
    for row in artifacts.moved_before(moved_before_ms, AT_ONCE, besides=reading):
        try:
            if row.kind == "checkpoint":
                checkpoint_services.discard_moved(row)
            else:
                artifact_services.discard_moved(row.id)
        except TrainmasterError as error:
            log.warning("the files of %s stay at their old place for now: %s", row.id, error)
        else:
            _tell("LeftoverDeleted", row, "the older copy; its files lie elsewhere")


def _tell(kind: str, row: Manifest, what: str) -> None:
    name = artifacts.names([row.id], None).get(row.id, row.kind)
    for team in row.teams.values_list("slug", flat=True).order_by("slug"):
        cause = f"{name}, {format_bytes(row.total_bytes)}: {what}"
        events.record(kind, f"storage:{row.id}", actor="system", team=team, cause=cause)


def _moved(manifest_id: str, to: str) -> bool:
    row = artifacts.find(manifest_id)
    if row is None or not row.source_url:
        return False
    target = f"{to}/{_place(row)}"
    deletions = artifact_services.deletions_in(target) if is_by_digest(target) else 0
    try:
        etags = _copy(row.source_url, target, from_document(row.document).files)
    except TrainmasterError as error:
        log.warning("%s is not moved to %s: %s", manifest_id, target, error)
        return False
    if not artifact_services.note_move(manifest_id, row.source_url, target, etags, deletions):
        return False
    cold = to == settings.COLD_STORE_URL.rstrip("/")
    why = (
        f"unused for {settings.COLD_AFTER_DAYS} days, to the cold store"
        if cold
        else "in use again, to the hot store"
    )
    _tell("FilesMoved", row, why)
    return True


def _place(row: Manifest) -> str:
    """In the other store: where it is in this one, but for a checkpoint."""
    place = artifacts.path_in_store(row.source_url)
    if row.kind != "checkpoint":
        return place
    return "/".join([*place.split("/")[:2], MOVED, row.id])


def _copy(source_url: str, target_url: str, files: tuple[FileEntry, ...]) -> list[str]:
    """Their etags at the new place. Raises verification_failed where other bytes were read than registered."""
    source, target = open_store(source_url), open_store(target_url)
    for entry in files:
        place = stored_path(target_url, entry)
        if is_by_digest(target_url) and target.exists(place):
            continue  # that of another version, or another of the same content
        digest = hashlib.sha256()
        target.write(place, _digested(source, stored_path(source_url, entry), entry, digest), entry.size)
        if digest.hexdigest() != entry.sha256:
            target.delete(place)
            raise TrainmasterError("verification_failed", path=entry.path)
    etags = [lasting_etag(target, stored_path(target_url, entry)) for entry in files]
    return etags if any(etags) else []


def _digested(store: Store, path: str, entry: FileEntry, digest: hashlib._Hash) -> Iterator[bytes]:
    for block in store.stream_range(path, 0, entry.size):
        digest.update(block)
        yield bytes(block)
