"""Deletes the files of a checkpoint from the store."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from platform_core.distribution.content.layout import is_by_digest
from platform_core.errors import TrainmasterError
from trainmaster.store import open_store
from webapp.artifacts import queries as artifacts
from webapp.checkpoints import shared_files

if TYPE_CHECKING:
    from webapp.artifacts.models import Manifest

log = logging.getLogger(__name__)


def delete(url: str, manifest: Manifest) -> None:
    """Those that agents put there; what is listed elsewhere is not the platform's to delete. Files that checkpoints of
    the job share stay for as long as one of them needs them."""
    try:
        folder = artifacts.path_in_store(url)
    except TrainmasterError as error:
        log.warning("the files of %s are left where they are: %s", manifest.id, error)
        return
    if is_by_digest(url):
        digests = [entry["sha256"] for entry in manifest.document["files"]]
        shared_files.delete(url, folder.split("/")[1], digests)
        return
    store = open_store(url)
    for entry in manifest.document["files"]:
        store.delete(entry["path"])
