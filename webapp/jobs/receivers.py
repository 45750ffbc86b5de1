"""Jobs that have not ended keep what they need: their secrets, and their team."""

from collections.abc import Sequence
from typing import Any

from platform_core.errors import TrainmasterError
from webapp.jobs import queries
from webapp.jobs.models import Job

SHOWN_JOBS = 5  # named in a sentence


def keep_secret_in_use(sender: Any, team: str, name: str, **_: Any) -> None:
    """A job needs it to start again elsewhere, and to have it masked in what it writes."""
    if jobs := queries.using_secret(team, name):
        raise TrainmasterError("secret_in_use", name=name, jobs=_in_words(jobs))


def keep_team_in_use(sender: Any, team: str, **_: Any) -> None:
    if jobs := queries.not_ended(team):
        raise TrainmasterError("team_in_use", team=team, jobs=_in_words(jobs))


def _in_words(jobs: Sequence[Job]) -> str:
    names = ", ".join(f"{job.name} ({job.id})" for job in jobs[:SHOWN_JOBS])
    return names + (f" and {len(jobs) - SHOWN_JOBS} more" if len(jobs) > SHOWN_JOBS else "")
