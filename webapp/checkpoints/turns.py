"""Whose turn it is in retention: jobs of which a checkpoint was saved, damaged or unpinned, or has become old.

So a round costs what has changed since the last one, however many jobs have ended.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from platform_core.units import MINUTE_MS
from webapp.base.identity import now_ms
from webapp.checkpoints.models import RetentionTurn

JOBS = 500  # in one round
AGAIN_MS = 10 * MINUTE_MS  # a round that broke off is taken up again after so long


@dataclass(frozen=True, slots=True)
class Turns:
    jobs: list[str]
    until_ms: int  # what `due_ms` says while this round looks at them; news of a job changes it

    def over(self, job: str, next_ms: int | None) -> None:
        """Its next turn, if nothing has come to it meanwhile. None: not before something does."""
        mine = RetentionTurn.objects.filter(job=job, due_ms=self.until_ms)
        mine.delete() if next_ms is None else mine.update(due_ms=next_ms)


def give(jobs: Iterable[str]) -> None:
    """These are looked at in the next round."""
    rows = [RetentionTurn(job_id=job, due_ms=now_ms()) for job in sorted(set(jobs))]
    RetentionTurn.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["job"], update_fields=["due_ms"]
    )


def take() -> Turns:
    now = now_ms()
    due = RetentionTurn.objects.filter(due_ms__lte=now).order_by("due_ms").values_list("job_id", flat=True)
    turns = Turns(list(due[:JOBS]), now + AGAIN_MS)
    if turns.jobs:
        RetentionTurn.objects.filter(job__in=turns.jobs, due_ms__lte=now).update(due_ms=turns.until_ms)
    return turns
