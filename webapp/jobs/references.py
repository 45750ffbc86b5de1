"""Which job a person means who writes its id, its name or the beginning of its id."""

from collections.abc import Iterable

from django.db.models import QuerySet

from platform_core import ids
from platform_core.errors import TrainmasterError
from webapp.jobs import queries
from webapp.jobs.models import Job

MOST_CANDIDATES = 5


def resolve(teams: Iterable[str] | None, reference: str) -> Job:
    """The job of these teams (None: of all) that the reference means, in this order:

    the job with this id; the newest job with this name, or with the name of TEAM/NAME; the one job whose id begins so.
    Raises not_found, and ambiguous_job when several teams have the name or several ids begin so.
    """
    visible = queries.visible(teams)
    for candidates in (
        _by_id(visible, reference),
        _by_name(visible, reference),
        _by_prefix(visible, reference),
    ):
        if len(candidates) > 1:
            raise _ambiguous(reference, candidates)
        if candidates:
            return candidates[0]
    raise TrainmasterError("not_found", what=f"job {reference}")


def _by_id(visible: QuerySet[Job], reference: str) -> list[Job]:
    return list(visible.filter(id=reference)) if ids.is_id(reference, ids.JOB) else []


def _by_name(visible: QuerySet[Job], reference: str) -> list[Job]:
    """The newest of each team that has this name."""
    newest = visible.order_by("team_id", "-submitted_ms", "-id").distinct("team_id")
    candidates = list(newest.filter(name=reference))
    team, slash, name = reference.partition("/")
    return candidates or (list(newest.filter(team_id=team, name=name)) if slash else [])


def _by_prefix(visible: QuerySet[Job], reference: str) -> list[Job]:
    digits = reference.removeprefix(f"{ids.JOB}-")
    if not digits or not set(digits) <= set(ids.ALPHABET):
        return []
    return list(visible.filter(id__startswith=f"{ids.JOB}-{digits}")[: MOST_CANDIDATES + 1])


def _ambiguous(reference: str, candidates: list[Job]) -> TrainmasterError:
    names = [f"{job.team_id}/{job.name} ({job.id})" for job in candidates[:MOST_CANDIDATES]]
    more = [] if len(candidates) <= MOST_CANDIDATES else ["…"]
    return TrainmasterError("ambiguous_job", reference=reference, candidates=", ".join([*names, *more]))
