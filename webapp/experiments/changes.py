"""One change of a run that the doors offer: fields, parameters, tags, archive."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from webapp.accounts.permissions import Actor
from webapp.experiments.models import Run
from webapp.experiments.removal import archive_runs, restore_runs
from webapp.experiments.runs import delete_tags, log_parameters, set_tags, update_run


@transaction.atomic
def change_run(actor: Actor, run: Run, changes: Mapping[str, Any]) -> None:
    """Changes the fields of `RunChanges`, adds parameters and tags (None removes a tag), archives or restores."""
    rest = dict(changes)
    parameters, tags = rest.pop("parameters", {}), rest.pop("tags", {})
    archived = rest.pop("archived", None)
    update_run(actor, run, **rest)
    if parameters:
        log_parameters(actor, run, parameters)
    if kept := {name: value for name, value in tags.items() if value is not None}:
        set_tags(actor, run, kept)
    delete_tags(actor, run, [name for name, value in tags.items() if value is None])
    if archived is not None:
        (archive_runs if archived else restore_runs)(actor, [run.id])
