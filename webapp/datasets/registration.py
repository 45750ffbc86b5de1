"""Registration of a dataset version where it lies: its source is listed, then hashed in short steps.

A step may come twice, or be killed at any moment: the next one goes on with what was written down.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from time import monotonic

from django.conf import settings
from django.db import transaction
from django.db.models import F, QuerySet, Sum

from platform_core.datasets.changes import Mark, compare
from platform_core.distribution.content.manifest import FileDigester, FilePart, join
from platform_core.distribution.content.parts import parts_of
from platform_core.distribution.planning.sizes import Sizes, advise, sizes_of
from platform_core.errors import TrainmasterError
from platform_core.units import MINUTE_MS
from trainmaster.store import Store
from trainmaster.store.port import shown, telling_since
from webapp.accounts.permissions import Actor, require
from webapp.artifacts import queries as artifact_queries
from webapp.artifacts import services as artifacts
from webapp.base.identity import now_ms
from webapp.datasets import hints, sources
from webapp.datasets.models import (
    DELETED,
    FAILED,
    HASHING,
    LISTING,
    READY,
    UNCHANGED,
    Dataset,
    DatasetSnapshot,
    SourceFile,
)
from webapp.events import services as events
from webapp.sockets import services as sockets

log = logging.getLogger(__name__)

STEP_SECONDS = 10.0  # then another task goes on, so that one large dataset does not hold a worker
HASHED_AT_ONCE = 4
PAUSE_SECONDS = 2.0  # while nodes hash all that is left
ROWS_AT_ONCE = 2000
SILENT_MS = 5 * MINUTE_MS  # a step that has not come back for so long was lost
PATHS_KEPT = 200  # of each kind of change
READERS = 64  # for whom the sizes of chunks are chosen; one version may be read by any number


def subject_of(snapshot: DatasetSnapshot) -> str:
    return f"dataset:{snapshot.id}"


def advance(snapshot_id: str, step: int) -> None:
    """One step. Dropped when it has come before, or the registration has ended."""
    claimed = DatasetSnapshot.objects.filter(id=snapshot_id, step=step, state__in=(LISTING, HASHING)).update(
        step=F("step") + 1, stepped_ms=now_ms()
    )
    if not claimed:
        return
    snapshot = DatasetSnapshot.objects.select_related("base").get(id=snapshot_id)
    try:
        done = _list(snapshot) if snapshot.state == LISTING else _hash(snapshot)
        if done:
            _finish(snapshot)
    except TrainmasterError as error:
        _end(snapshot, FAILED, error.sentence)
    else:
        if not done:
            hints.register(snapshot.id, step + 1, 0 if _untaken(snapshot).exists() else PAUSE_SECONDS)
    sockets.publish(subject_of(snapshot))


def continue_all() -> None:
    """Enqueues the next step of registrations whose last one was lost."""
    lost = DatasetSnapshot.objects.filter(
        state__in=(LISTING, HASHING), stepped_ms__lt=now_ms() - SILENT_MS
    ).values_list("id", "step")
    for snapshot_id, step in lost:
        hints.register(snapshot_id, step)


@transaction.atomic
def resume(actor: Actor, snapshot: DatasetSnapshot) -> None:
    """A failed registration goes on where it failed. What was hashed is kept while its source has not changed."""
    require(actor, "dataset.create", snapshot.team_id)
    row = DatasetSnapshot.objects.select_for_update().get(id=snapshot.id)
    if row.state != FAILED:
        why = f"its registration is {row.state}; only a failed one can be resumed"
        raise TrainmasterError("request_invalid", what=f"{row.name} version {row.version}", why=why)
    row.state, row.error, row.stepped_ms = LISTING, "", now_ms()
    row.save(update_fields=["state", "error", "stepped_ms"])
    hints.register(row.id, row.step)


def ask_for_check(actor: Actor, snapshot: DatasetSnapshot) -> None:
    """Compares the source with the version in the background."""
    require(actor, "dataset.view", snapshot.team_id)
    if not snapshot.source or snapshot.state != READY:
        why = "only a version that was registered in place and is ready has a source to compare with"
        raise TrainmasterError("request_invalid", what=f"{snapshot.name} version {snapshot.version}", why=why)
    hints.check_source(snapshot.id)


def check_source(snapshot_id: str) -> None:
    """What has changed in the source of a version since it was registered; the version itself does not change."""
    snapshot = DatasetSnapshot.objects.get(id=snapshot_id)
    try:
        before = _marks(snapshot)
        found = sources.files(sources.check(snapshot.source), snapshot.paths)
        changes = compare(before, {file.path: Mark(file.size, file.etag) for file in found})
        result = {
            "summary": str(changes),
            "differs": bool(changes),
            **{kind: list(getattr(changes, kind)[:PATHS_KEPT]) for kind in ("added", "removed", "changed")},
        }
    except TrainmasterError as error:
        result = {"summary": error.sentence, "differs": True}
    DatasetSnapshot.objects.filter(id=snapshot_id).update(checked_ms=now_ms(), check_result=result)
    sockets.publish(subject_of(snapshot))


# -- the steps


def _list(snapshot: DatasetSnapshot) -> bool:
    """Pins the files of the source. What was listed before and is the same keeps its hashes."""
    known = {row.path: row for row in snapshot.sources.defer("part").iterator()}
    found = sources.files(sources.check(snapshot.source), snapshot.paths)
    count = size = 0
    while batch := list(islice(found, ROWS_AT_ONCE)):
        new = [file for file in batch if not _is_known(known.pop(file.path, None), file)]
        rows = [SourceFile(snapshot=snapshot, path=file.path, size=file.size, etag=file.etag) for file in new]
        with transaction.atomic():
            SourceFile.objects.filter(snapshot=snapshot, path__in=[file.path for file in new]).delete()
            SourceFile.objects.bulk_create(rows)
        count, size = count + len(batch), size + sum(file.size for file in batch)
    if not count:
        raise TrainmasterError("source_unavailable", source=snapshot.source, why="it has no files")
    SourceFile.objects.filter(id__in=[row.id for row in known.values()]).delete()
    _share_unchanged(snapshot)
    snapshot.state, snapshot.files_found, snapshot.bytes_found = HASHING, count, size
    snapshot.save(update_fields=["state", "files_found", "bytes_found"])
    _count_done(snapshot)
    return False


def _is_known(row: SourceFile | None, file: sources.Found) -> bool:
    return row is not None and (row.size, row.etag) == (file.size, file.etag)


def _share_unchanged(snapshot: DatasetSnapshot) -> None:
    """Files that the base has under the same path, size and etag are not hashed again."""
    base = snapshot.base
    if base is None or base.manifest_id is None:
        return
    parts, before = parts_of(artifact_queries.manifest(base.manifest_id)), _marks(base)
    same = [
        row
        for row in snapshot.sources.filter(done=False).exclude(etag="").iterator()
        if before.get(row.path) == Mark(row.size, row.etag)
    ]
    for row in same:
        row.part, row.done = parts[row.path].as_document(), True
    SourceFile.objects.bulk_update(same, ["part", "done"], batch_size=ROWS_AT_ONCE)


def _marks(snapshot: DatasetSnapshot) -> dict[str, Mark]:
    """Of the files of a version that was registered in place, as its source had them."""
    files = artifact_queries.file_list(snapshot.manifest_id or "")
    return {file["path"]: Mark(file["size"], etag) for file, etag in zip(files, snapshot.etags, strict=True)}


def _hash(snapshot: DatasetSnapshot) -> bool:
    """Hashes files until the time of a step is over; whether all are done."""
    store, sizes, until = (
        sources.opened(sources.check(snapshot.source)),
        sizes_of_registration(snapshot),
        monotonic() + STEP_SECONDS,
    )
    with ThreadPoolExecutor(HASHED_AT_ONCE, "hash") as pool:
        while rows := list(_untaken(snapshot).order_by("id")[: 4 * HASHED_AT_ONCE]):
            for row, part in zip(rows, pool.map(lambda row: _digest(store, row, sizes), rows), strict=True):
                SourceFile.objects.filter(id=row.id, done=False).update(part=part.as_document(), done=True)
            if monotonic() > until:
                break
    _count_done(snapshot)
    return not snapshot.sources.filter(done=False).exists()


def _untaken(snapshot: DatasetSnapshot) -> QuerySet[SourceFile]:
    """What nobody has hashed, and no node hashes now."""
    return snapshot.sources.filter(done=False, taken_until_ms__lt=now_ms())


def _digest(store: Store, row: SourceFile, sizes: Sizes) -> FilePart:
    digester = FileDigester(row.path, sizes.chunk, sizes.piece)
    with telling_since("since it was listed"):
        for block in store.stream_range(row.path, 0, row.size, row.etag):
            digester.feed(block)
        if row.etag and store.etag(row.path) != row.etag:
            why = (
                f"{row.path} was changed while it was read; resume the registration when nobody writes there"
            )
            raise TrainmasterError("source_unavailable", source=store.url, why=why)
    return digester.finish()


def sizes_of_registration(snapshot: DatasetSnapshot) -> Sizes:
    """As the base was cut, so that its files are shared; otherwise as fits the bytes that there are."""
    if snapshot.base is not None and snapshot.base.manifest is not None:
        before = sizes_of(snapshot.base.manifest.document)
        if before is not None:
            return before
    return advise(snapshot.bytes_found, READERS, settings.NETWORK_BYTES_PER_SECOND)


def _count_done(snapshot: DatasetSnapshot) -> None:
    done = snapshot.sources.filter(done=True)
    snapshot.files_done = done.count()
    snapshot.bytes_done = done.aggregate(sum=Sum("size"))["sum"] or 0
    snapshot.save(update_fields=["files_done", "bytes_done"])


def _finish(snapshot: DatasetSnapshot) -> None:
    document = join("dataset", _parts(snapshot), _piece_size(snapshot))
    base = snapshot.base
    if base is not None and (base.manifest_id, base.purpose) == (document.id, snapshot.purpose):
        which = f"version {base.version}" + (", which was deleted" if base.state == DELETED else "")
        snapshot.sources.all().delete()
        _end(snapshot, UNCHANGED, f"Its files are those of {which}; nothing is new.")
        return
    pins = dict(snapshot.sources.values_list("path", "etag"))
    same_everywhere = sources.opened(snapshot.source).same_everywhere
    with transaction.atomic():
        snapshot.manifest = artifacts.register(
            document, snapshot.team_id, snapshot.source, pins if same_everywhere else {}
        )
        snapshot.etags = [pins[entry.path] for entry in document.files]
        snapshot.save(update_fields=["manifest", "etags"])
        snapshot.sources.all().delete()
        _end(snapshot, READY)
        for deleted in older_deleted(snapshot):
            forget_files(deleted)
        where = f"in place at {shown(snapshot.source)}"
        events.record(
            "SnapshotRegistered", subject_of(snapshot), actor=f"user:{snapshot.created_by.username}",
            team=snapshot.team_id,
            cause=f"{snapshot.name} version {snapshot.version} for {snapshot.purpose}, "
            f"{snapshot.manifest.files} files, {where}",
        )  # fmt: skip


def older_deleted(snapshot: DatasetSnapshot) -> QuerySet[DatasetSnapshot]:
    """Deleted versions before this one whose list of files was kept, to know the same files again."""
    same = DatasetSnapshot.objects.filter(team=snapshot.team_id, name=snapshot.name, state=DELETED)
    return same.filter(version__lt=snapshot.version).exclude(manifest=None)


def forget_files(row: DatasetSnapshot) -> None:
    """Its list of files goes, and the manifest with it where nothing else refers to that."""
    manifest_id, row.manifest_id, row.etags = row.manifest_id, None, []
    row.save(update_fields=["manifest", "etags"])
    if manifest_id is not None and row.source:
        artifacts.forget(manifest_id)


def _parts(snapshot: DatasetSnapshot) -> Iterator[FilePart]:
    rows = snapshot.sources.values_list("part", flat=True)
    return (FilePart.from_document(part or {}) for part in rows.iterator(chunk_size=ROWS_AT_ONCE))


def _piece_size(snapshot: DatasetSnapshot) -> int:
    first = snapshot.sources.values_list("part", flat=True).first()
    return int(first["piece_size"]) if first else sizes_of_registration(snapshot).piece


def _end(snapshot: DatasetSnapshot, state: str, error: str = "") -> None:
    log.info("%s: %s %s", snapshot.id, state, error)
    DatasetSnapshot.objects.filter(id=snapshot.id).update(state=state, error=error)
    followed = Dataset.objects.filter(team=snapshot.team_id, name=snapshot.name, follow_minutes__gt=0)
    followed.update(follow_error=error if state == FAILED else "")
