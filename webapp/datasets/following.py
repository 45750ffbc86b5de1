"""A dataset whose source grows is followed: every so many minutes what has come makes its next version."""

from __future__ import annotations

import logging

from platform_core.errors import TrainmasterError
from platform_core.units import MINUTE_MS
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.datasets.models import FAILED, HASHING, LISTING, UNCHANGED, Dataset, DatasetSnapshot
from webapp.datasets.services import register_source, resume

UNKNOWN = "The look failed; the log of the workers says why."
log = logging.getLogger(__name__)


def follow_all() -> int:
    """Begins what is due. Returns how many. A look that a lost worker has not ended is not begun again."""
    now = now_ms()
    due = [
        row
        for row in Dataset.objects.filter(follow_minutes__gt=0).order_by("id")
        if row.followed_ms + row.follow_minutes * MINUTE_MS <= now
    ]
    return sum(_follow(row, now) for row in due)


def _follow(row: Dataset, now: int) -> bool:
    versions = DatasetSnapshot.objects.filter(team=row.team_id, name=row.name).exclude(source="")
    newest = versions.select_related("created_by").order_by("-version").first()
    if newest is None or newest.state in (LISTING, HASHING):
        return False
    claimed = Dataset.objects.filter(id=row.id, followed_ms=row.followed_ms).update(followed_ms=now)
    if not claimed:
        return False
    try:
        _look(newest)
    except Exception as error:  # of one dataset: the others are followed all the same
        log.warning("%s/%s cannot be followed", row.team_id, row.name, exc_info=error)
        why = error.sentence if isinstance(error, TrainmasterError) else UNKNOWN
        Dataset.objects.filter(id=row.id).update(follow_error=why)
        return False
    return True


def _look(newest: DatasetSnapshot) -> None:
    """What ends it, ready or failed, says so on the dataset. A failed version goes on; each look would leave one."""
    actor = actor_of(newest.created_by)
    if newest.state == FAILED:
        resume(actor, newest)
        return
    if newest.state == UNCHANGED:
        newest.delete()  # it has nothing, and its number is given again
    register_source(
        actor, newest.team_id, newest.name, newest.source, newest.purpose, newest.projects, newest.paths,
        besides_deleted=True,
    )  # fmt: skip
