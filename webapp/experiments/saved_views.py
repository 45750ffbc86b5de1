"""Tables of an experiment that people arranged and named, for themselves or for their team."""

from django.db.models import Q, QuerySet

from platform_core.errors import TrainmasterError
from platform_core.experiments import fields
from webapp.accounts import queries as accounts
from webapp.accounts.permissions import Actor, require
from webapp.base.identity import now_ms
from webapp.experiments.models import Experiment, SavedView

NAME_LENGTH = 120
QUERY_LENGTH = 8_000
MOST_VIEWS = 100  # of a person in an experiment


def save_view(
    actor: Actor, experiment: Experiment, name: str, query: str, *, shared: bool = False
) -> SavedView:
    """Saves a view; one of the same name of the same person is replaced. To share it one must be a member."""
    require(
        actor, "experiment.edit" if shared else "experiment.view", experiment.team_id,
        what=f"experiment {experiment.pk}",
    )  # fmt: skip
    name = fields.name(name, "view", NAME_LENGTH)
    query = fields.text(query, "the view", QUERY_LENGTH)
    owner = accounts.user_key(actor.username)
    own = SavedView.objects.filter(experiment=experiment, owner=owner)
    if not own.filter(name=name).exists() and own.count() >= MOST_VIEWS:
        why = f"you have {MOST_VIEWS} in this experiment; delete one first"
        raise TrainmasterError("request_invalid", what="the view", why=why)
    view, _ = SavedView.objects.update_or_create(
        experiment=experiment,
        owner_id=owner,
        name=name,
        defaults={"query": query, "shared": shared, "saved_ms": now_ms()},
    )
    return view


def delete_view(actor: Actor, experiment: Experiment, view_id: int) -> None:
    """The owner deletes a view, and a lead one that is shared."""
    view = _visible(actor, experiment).filter(id=view_id).select_related("owner").first()
    if view is None:
        raise TrainmasterError("not_found", what=f"view {view_id}")
    if view.owner.username != actor.username:
        require(actor, "experiment.delete", experiment.team_id, owner=view.owner.username)
    view.delete()


def views_of(actor: Actor, experiment: Experiment) -> list[SavedView]:
    """The actor's own, and those shared with the team."""
    return list(_visible(actor, experiment).select_related("owner").order_by("name", "id"))


def _visible(actor: Actor, experiment: Experiment) -> QuerySet[SavedView]:
    return SavedView.objects.filter(Q(owner__username=actor.username) | Q(shared=True), experiment=experiment)
