"""Nodes that have nothing to train hash files of a registration: they take some, and hand in the digests.

A file that was taken and not handed in is anybody's again when its lease is over. The tasks of the platform go on with
what no node has taken, from the other end of the list.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from django.db import transaction
from django.db.models import Count, F, Sum

from platform_core.distribution.content.manifest import FilePart, join
from platform_core.distribution.planning.sizes import Sizes
from platform_core.errors import TrainmasterError
from platform_core.units import SECOND_MS
from trainmaster.store.s3 import S3Store
from webapp.base.identity import now_ms
from webapp.datasets import sources
from webapp.datasets.models import HASHING, DatasetSnapshot, SourceFile
from webapp.datasets.registration import sizes_of_registration

log = logging.getLogger(__name__)

LEASE_SECONDS = 60
SIGNED_SECONDS = 900
MOST_FILES, MOST_BYTES = 32, 1 << 30  # that a node takes at a time; of a larger file one
LARGEST = 64 << 30  # the digests of a larger one are too much for a message
LEAST_FILES, LEAST_BYTES = 200, 256 << 20  # of less the tasks have hashed all before a node has begun
SCHEMES = ("s3://", "gs://")  # of sources that can be read by a signed address


@dataclass(frozen=True, slots=True)
class Taken:
    id: int
    path: str
    url: str
    size: int
    etag: str


@dataclass(frozen=True, slots=True)
class Hashed:
    """`part_json` is empty where the node could not read the file."""

    id: int
    etag: str
    part_json: bytes
    error: str


@dataclass(frozen=True, slots=True)
class Batch:
    files: tuple[Taken, ...]
    sizes: Sizes


def worth_help() -> list[DatasetSnapshot]:
    """Registrations with so much to hash that nodes shall help, or that nodes help with already; the oldest first."""
    rows = DatasetSnapshot.objects.filter(state=HASHING).order_by("created_ms", "id")
    return [row for row in rows if row.source.startswith(SCHEMES) and (row.helpers or _is_worth_help(row))]


def _is_worth_help(row: DatasetSnapshot) -> bool:
    left = row.sources.filter(done=False).aggregate(files=Count("id"), bytes=Sum("size"))
    return left["files"] >= LEAST_FILES or (left["bytes"] or 0) >= LEAST_BYTES


def ended() -> list[DatasetSnapshot]:
    """Registrations for which nodes hash that have nothing to hash any more."""
    return list(DatasetSnapshot.objects.exclude(state=HASHING).exclude(helpers={}))


def set_helpers(row: DatasetSnapshot, helpers: dict[str, str]) -> None:
    """What the others had taken is anybody's."""
    DatasetSnapshot.objects.filter(id=row.id).update(helpers=helpers)
    gone = row.helpers.keys() - helpers.keys()
    row.sources.filter(taken_by__in=gone, done=False).update(taken_by="", taken_until_ms=0)
    row.helpers = helpers


def wanted_on(node_ids: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Node → the registrations that it hashes for."""
    rows = DatasetSnapshot.objects.filter(state=HASHING).exclude(helpers={}).values_list("id", "helpers")
    helping = {key: {node for node, why in helpers.items() if not why} for key, helpers in rows}
    return {node: tuple(sorted(key for key in helping if node in helping[key])) for node in node_ids}


def exchange(node_id: str, snapshot_id: str, done: Iterable[Hashed], held: Collection[int]) -> Batch:
    """Notes what the node has hashed, renews what it holds, and gives it more where it holds nothing. Raises
    not_allowed where the registration is not (or no more) its business."""
    snapshot = DatasetSnapshot.objects.filter(id=snapshot_id, state=HASHING).first()
    if snapshot is None or snapshot.helpers.get(node_id, "not asked"):
        raise TrainmasterError(
            "not_allowed", f"Registration {snapshot_id} needs no hashes of this node (any more)"
        )
    sizes = _sizes(snapshot_id, snapshot.bytes_found)
    failures = [error for file in done if (error := _note(snapshot, node_id, file, sizes))]
    if failures:
        _leave_out(snapshot_id, node_id, failures[0])
        return Batch((), sizes)
    until = now_ms() + LEASE_SECONDS * SECOND_MS
    if held:
        mine = snapshot.sources.filter(id__in=list(held), taken_by=node_id, done=False)
        mine.update(taken_until_ms=until)
        return Batch((), sizes)
    return Batch(tuple(_take(snapshot, node_id, until)), sizes)


@lru_cache(maxsize=64)
def _sizes(snapshot_id: str, bytes_found: int) -> Sizes:
    """They stay while it is hashed; the manifest of its base, which may give them, has megabytes."""
    return sizes_of_registration(DatasetSnapshot.objects.select_related("base__manifest").get(id=snapshot_id))


def _take(snapshot: DatasetSnapshot, node_id: str, until_ms: int) -> list[Taken]:
    with transaction.atomic():
        free = snapshot.sources.filter(done=False, taken_until_ms__lt=now_ms(), size__lte=LARGEST)
        free = free.select_for_update(skip_locked=True).order_by("-id")[:MOST_FILES]
        rows: list[SourceFile] = []
        for row in free:
            if rows and sum(each.size for each in rows) + row.size > MOST_BYTES:
                break
            rows.append(row)
        SourceFile.objects.filter(id__in=[row.id for row in rows]).update(
            taken_by=node_id, taken_until_ms=until_ms
        )
    if not rows:
        return []
    store = sources.opened(sources.check(snapshot.source))
    if not isinstance(store, S3Store):
        raise TrainmasterError("request_invalid", what=snapshot.source, why="no address in it can be signed")
    return [
        Taken(row.id, row.path, store.signed(row.path, row.etag, SIGNED_SECONDS), row.size, row.etag)
        for row in rows
    ]


def _note(snapshot: DatasetSnapshot, node_id: str, file: Hashed, sizes: Sizes) -> str:
    """Why its digests are not taken; "" where they are. What others have hashed meanwhile stays as it is."""
    row = snapshot.sources.filter(id=file.id, taken_by=node_id, done=False).first()
    if row is None:
        return ""
    why = file.error or ("" if file.part_json else "it gave no digests")
    if not why:
        try:
            part = _checked(json.loads(file.part_json), row, sizes)
        except (ValueError, KeyError, TypeError, TrainmasterError, RecursionError) as error:
            why = f"its digests of {row.path} are not sound: {error}"
        else:
            if file.etag == row.etag:
                if snapshot.sources.filter(id=row.id, done=False).update(part=part.as_document(), done=True):
                    DatasetSnapshot.objects.filter(id=snapshot.id).update(
                        files_by_nodes=F("files_by_nodes") + 1
                    )
                return ""
            why = f"it read {row.path} with etag {file.etag}, and {row.etag} was listed"
    snapshot.sources.filter(id=row.id, done=False).update(taken_by="", taken_until_ms=0)
    return why


def _checked(document: Any, row: SourceFile, sizes: Sizes) -> FilePart:
    """The part of a manifest that a file of this size, cut so, must have."""
    part = FilePart.from_document(document)
    if (part.entry.path, part.entry.size) != (row.path, row.size):
        raise ValueError("they are of another file")
    cut = [chunk.size for chunk in part.chunks]
    if cut[:-1] != [sizes.chunk] * len(cut[:-1]) or max(cut, default=0) > sizes.chunk:
        raise ValueError("it was cut otherwise")
    join("dataset", [part], sizes.piece)  # raises manifest_invalid
    return part


@transaction.atomic
def _leave_out(snapshot_id: str, node_id: str, why: str) -> None:
    """The node hashes no more for this registration; its files are anybody's at once."""
    log.warning("%s hashes no more for %s: %s", node_id, snapshot_id, why)
    row = DatasetSnapshot.objects.select_for_update().get(id=snapshot_id)
    row.helpers[node_id] = why[:500]
    row.save(update_fields=["helpers"])
    row.sources.filter(taken_by=node_id, done=False).update(taken_by="", taken_until_ms=0)
