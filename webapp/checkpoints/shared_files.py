"""Files that the checkpoints of a job share in the store under their digests; see artifacts.models.SharedFolder."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from django.conf import settings

from platform_core.distribution.content.manifest import Manifest
from trainmaster.store import Store, open_store
from webapp.artifacts import services as artifacts
from webapp.checkpoints.models import CheckpointPart


def url_of(job_id: str) -> str:
    return artifacts.shared_folder(settings.STORE_URL, f"checkpoint/{job_id}")


def seen(job_id: str) -> int:
    """The number of deletions so far, to be read before the store is looked at."""
    return artifacts.deletions_in(url_of(job_id))


def missing(job_id: str, manifest: Manifest) -> list[str]:
    """Digests of files that the store does not have, or with another size."""
    store = open_store(url_of(job_id))
    sizes = {entry.sha256: entry.size for entry in manifest.files}
    return [
        digest for digest, size in sizes.items() if not store.exists(digest) or store.size(digest) != size
    ]


def claim(job_id: str, deletions: int, manifest: Manifest) -> bool:
    """Inside the transaction that registers a part: whether none of its files was or is being deleted since `seen`."""
    return artifacts.claim(url_of(job_id), (entry.sha256 for entry in manifest.files), deletions)


def delete(url: str, job_id: str, digests: Iterable[str]) -> None:
    """Those of these files that no checkpoint and no part of the job needs. May be repeated."""
    artifacts.doom(url, digests, _under_way(job_id))
    artifacts.account(url)
    artifacts.delete_doomed(url)


def sweep(job_id: str) -> None:
    """Removes what attempts that have ended left in the store and no checkpoint names: half a checkpoint, or a file
    whose upload was never announced."""
    url = url_of(job_id)
    delete(url, job_id, [entry.path for entry in open_store(url).list()])


def _under_way(job_id: str) -> list[Collection[str]]:
    rows = CheckpointPart.objects.filter(job=job_id).values_list("manifest", flat=True)
    return [{entry["sha256"] for entry in document["files"]} for document in rows]


def write(store: Store, digest: str, data: bytes) -> None:
    if not store.exists(digest):
        store.write(digest, [data], len(data))
