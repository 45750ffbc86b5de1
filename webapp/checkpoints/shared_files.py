"""Files that the checkpoints of a job share in the store under their digests; see models.SharedFiles."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable

from django.conf import settings
from django.db import transaction

from platform_core.checkpointing.parts import unreferenced
from platform_core.distribution.content.layout import BY_DIGEST
from platform_core.distribution.content.manifest import Manifest
from platform_core.errors import TrainmasterError
from trainmaster.store import Store, open_store
from webapp.artifacts import queries as artifacts
from webapp.checkpoints.models import CheckpointPart, SharedFiles

log = logging.getLogger(__name__)


def url_of(job_id: str) -> str:
    return f"{settings.STORE_URL.rstrip('/')}/checkpoint/{job_id}/{BY_DIGEST}"


def seen(job_id: str) -> int:
    """The number of deletions so far, to be read before the store is looked at."""
    return SharedFiles.objects.get_or_create(job_id=job_id)[0].deletions


def missing(job_id: str, manifest: Manifest) -> list[str]:
    """Digests of files that the store does not have, or with another size."""
    store = open_store(url_of(job_id))
    sizes = {entry.sha256: entry.size for entry in manifest.files}
    return [
        digest for digest, size in sizes.items() if not store.exists(digest) or store.size(digest) != size
    ]


def claim(job_id: str, deletions: int, manifest: Manifest) -> bool:
    """Inside the transaction that registers a part: whether none of its files was or is being deleted since `seen`."""
    files = SharedFiles.objects.select_for_update().get(job_id=job_id)
    doomed = set(files.doomed)
    return files.deletions == deletions and not doomed.intersection(e.sha256 for e in manifest.files)


@transaction.atomic
def doom(job_id: str, digests: Iterable[str]) -> None:
    """From now on nobody begins to use those of these files that no checkpoint and no part of the job needs."""
    SharedFiles.objects.get_or_create(job_id=job_id)
    files = SharedFiles.objects.select_for_update().get(job_id=job_id)
    gone = unreferenced(digests, _living(job_id), _under_way(job_id))
    files.doomed = sorted({*files.doomed, *gone})
    files.save(update_fields=["doomed"])


def delete_doomed(job_id: str) -> int:
    """Deletes them from the store. May be repeated, after a failure of the store or of this process."""
    files = SharedFiles.objects.filter(job_id=job_id).first()
    if files is None or not files.doomed:
        return 0
    store = open_store(url_of(job_id))
    for digest in files.doomed:
        store.delete(digest)
    with transaction.atomic():
        row = SharedFiles.objects.select_for_update().get(job_id=job_id)
        row.doomed = sorted(set(row.doomed) - set(files.doomed))
        row.deletions += 1
        row.save(update_fields=["doomed", "deletions"])
    return len(files.doomed)


def sweep(job_id: str) -> int:
    """Removes what attempts that have ended left in the store and no checkpoint names: half a checkpoint, or a file
    whose upload was never announced."""
    doom(job_id, [entry.path for entry in open_store(url_of(job_id)).list()])
    return delete_doomed(job_id)


def _living(job_id: str) -> list[Collection[str]]:
    """A manifest has its URL until its files are deleted, whatever refers to it."""
    return [{entry["sha256"] for entry in files} for files in artifacts.files_at(url_of(job_id))]


def _under_way(job_id: str) -> list[Collection[str]]:
    rows = CheckpointPart.objects.filter(job=job_id).values_list("manifest", flat=True)
    return [{entry["sha256"] for entry in document["files"]} for document in rows]


def write(store: Store, digest: str, data: bytes) -> None:
    if not store.exists(digest):
        store.write(digest, [data], len(data))


def finish_deletions(limit: int = 50) -> None:
    for job_id in SharedFiles.objects.exclude(doomed=[]).values_list("job_id", flat=True)[:limit]:
        try:
            delete_doomed(job_id)
        except TrainmasterError as error:
            log.warning("files of checkpoints of %s are not deleted yet: %s", job_id, error)
