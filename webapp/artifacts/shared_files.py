"""Files that several manifests share in the store under their digests; see models.SharedFolder."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable

from django.db import transaction

from platform_core.distribution.content.layout import BY_DIGEST
from platform_core.errors import TrainmasterError
from platform_core.storage.sharing import own_bytes, unreferenced
from trainmaster.store import open_store
from webapp.artifacts import queries
from webapp.artifacts.models import Manifest, SharedFolder, Upload

log = logging.getLogger(__name__)
AT_ONCE = 100  # files that are deleted while the folder is locked


def shared_folder(store_url: str, place: str) -> str:
    return f"{store_url.rstrip('/')}/{place}/{BY_DIGEST}"


def deletions_in(url: str) -> int:
    """How many there were so far, to be read before the store is looked at."""
    return SharedFolder.objects.get_or_create(source_url=url)[0].deletions


def claim(url: str, digests: Iterable[str], deletions: int | None = None) -> bool:
    """Inside the transaction that notes their use: whether none of these files is being deleted, nor was since there
    were so many deletions."""
    folder = _locked(url)
    return deletions in (None, folder.deletions) and not set(folder.doomed).intersection(digests)


@transaction.atomic
def doom(url: str, digests: Iterable[str], under_way: Iterable[Collection[str]] = ()) -> None:
    """From now on nobody begins to use those of these files that no manifest, no upload and nothing `under_way` has."""
    folder = _locked(url)
    # These first: what is complete meanwhile is found among the manifests.
    waiting = [*under_way, queries.digests_on_their_way(url)]
    gone = unreferenced(digests, queries.digests_at(url), waiting)
    folder.doomed = sorted({*folder.doomed, *gone})
    folder.save(update_fields=["doomed"])


def _locked(url: str) -> SharedFolder:
    return SharedFolder.objects.select_for_update().get_or_create(source_url=url)[0]


def delete_doomed(url: str) -> int:
    """Deletes them from the store. May be repeated, after a failure of the store or of this process."""
    deleted = 0
    while some := _delete_some(url):
        deleted += some
    return deleted


@transaction.atomic
def _delete_some(url: str) -> int:
    """Locked: two that delete at once would take away what was written again between them."""
    folder = SharedFolder.objects.select_for_update().filter(source_url=url).first()
    if folder is None or not folder.doomed:
        return 0
    store, now = open_store(url), folder.doomed[:AT_ONCE]
    for digest in now:
        store.delete(digest)
    folder.doomed = folder.doomed[AT_ONCE:]
    folder.deletions += 1
    folder.save(update_fields=["doomed", "deletions"])
    return len(now)


def finish_deletions(limit: int = 50) -> None:
    """Of all folders: those that broke off."""
    for url in SharedFolder.objects.exclude(doomed=[]).values_list("source_url", flat=True)[:limit]:
        try:
            delete_doomed(url)
        except TrainmasterError as error:
            log.warning("files that nothing needs in %s are not deleted yet: %s", url, error)


def account(url: str) -> None:
    """Whose the bytes in the folder are, after a manifest came or left: each file is that of the oldest that has it.

    Outside of the transaction that changed it: it locks manifests one by one, and nothing else.
    """
    rows = Manifest.objects.filter(source_url=url).order_by("created_ms", "id")
    kept = list(rows.values_list("id", "total_bytes", "shared_bytes"))
    for (key, total, shared), own in zip(kept, own_bytes(queries.digests_at(url, moved=False)), strict=True):
        if shared != total - own:
            Manifest.objects.filter(id=key).update(shared_bytes=total - own)
            Upload.objects.filter(manifest=key, source_url=url, bytes__gt=0).update(bytes=own)
