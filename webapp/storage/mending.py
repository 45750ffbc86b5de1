"""What the store has lost is written back by a node that holds it, and read again to see whether it was."""

from __future__ import annotations

import logging
import time

from platform_core.distribution.content.manifest import from_document
from platform_core.errors import TrainmasterError
from webapp.artifacts import queries as artifacts
from webapp.base.identity import now_ms
from webapp.nodes import queries as node_queries
from webapp.nodes import services as nodes
from webapp.storage import scrub
from webapp.storage.models import Damage

log = logging.getLogger(__name__)

AT_ONCE = 100  # damaged files in one round


def recheck() -> None:
    """Reads damaged files again: somebody may have uploaded them, or a node has written them back.

    After some time the next round goes on.
    """
    ends = time.monotonic() + scrub.LONGEST_SECONDS
    for damage in _open():
        if time.monotonic() >= ends:
            return
        Damage.objects.filter(pk=damage.pk).update(read_ms=now_ms())
        row = artifacts.find(damage.manifest)
        if row is None or not row.source_url:
            damage.delete()  # nobody needs it any more
            continue
        (entry,) = (entry for entry in from_document(row.document).files if entry.path == damage.path)
        try:
            scrub.reread(row, entry)
        except TrainmasterError as error:
            log.warning("the damaged files are read again later, for the store cannot be read: %s", error)
            return


def ask() -> None:
    """Asks a node that holds a damaged file to write it back; the next holder where that has not helped."""
    found = _open()
    holders = node_queries.holders(sorted({damage.manifest for damage in found}))
    for damage in found:
        nodes_of = holders[damage.manifest]
        mender = nodes_of[damage.asks % len(nodes_of)] if nodes_of else ""
        changed = {"mender": mender, "asks": damage.asks + bool(mender)}
        Damage.objects.filter(pk=damage.pk, mended_ms=None).update(**changed)
        nodes.touch({mender, damage.mender} - {""})


def _open() -> list[Damage]:
    """Those that were read longest ago come first."""
    return list(Damage.objects.filter(mended_ms=None).order_by("read_ms", "id")[:AT_ONCE])
