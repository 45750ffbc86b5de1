"""Which runs a table or a chart shows: of a team or of one experiment, filtered and sorted, a stretch at a time."""

from dataclasses import dataclass
from typing import Any

from webapp.accounts.permissions import Actor
from webapp.experiments import queries
from webapp.experiments.models import Experiment
from webapp.experiments.queries import RunPage


@dataclass(frozen=True, slots=True)
class Selection:
    team: str
    experiment: Experiment | None = None  # of the team; None for all of them
    filter: str = ""
    order: str = ""
    view: str = "active"  # active, archived, deleted or all


def scope(selection: Selection) -> dict[str, Any]:
    """What `queries.matching_runs` takes."""
    return {
        "experiments": [selection.experiment.pk] if selection.experiment else None,
        "teams": [selection.team],
        "filter": selection.filter,
        "view": selection.view,
    }


def selected(actor: Actor, selection: Selection, *, limit: int, cursor: str = "") -> RunPage:
    """Raises filter_invalid with the position of what is wrong."""
    order = [selection.order] if selection.order else []
    return queries.search_runs(actor, **scope(selection), order_by=order, limit=limit, cursor=cursor)
