"""Images, tables, histograms, texts and sounds of runs: kept idempotently, listed by key and step.

A value is known by (run, key, step, index). The same again changes nothing; a later attempt of a job replaces the steps
that it repeats, and an earlier one never comes back. Bytes lie in the platform's store under values/RUN/.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from django.conf import settings
from django.db import transaction
from django.db.models import Count, Max, Min

from platform_core.errors import TrainmasterError
from platform_core.experiments import rich_values as core
from platform_core.experiments.states import ENDED
from platform_core.units import format_bytes
from trainmaster.store import open_store
from webapp.accounts.permissions import Actor, require
from webapp.base.identity import now_ms
from webapp.experiments import space
from webapp.experiments.models import RichValue, Run
from webapp.sockets import services as sockets

FOLDER = "values"  # of the store
MOST_LISTED = 1_000


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a run, with the kind and the steps of its values."""

    key: str
    kind: str
    values: int
    first_step: int
    last_step: int


def log_value(actor: Actor, run: Run, value: core.RichValue) -> RichValue:
    """Keeps a value of a run without a job, or one more of a job's run. Raises too_large beyond the run's limits."""
    require(
        actor, "experiment.edit", run.experiment.team_id, owner=run.owner_name or None, what=f"run {run.id}"
    )
    if run.deleted_ms is not None:
        raise TrainmasterError(
            "illegal_transition", f"Run {run.id} was deleted; restore it before you change it"
        )
    return keep(run, value)


def ingest(run_id: str, attempt: int, value: core.RichValue) -> None:
    """Keeps a value that an agent sends. A run that is gone keeps nothing."""
    run = Run.objects.select_related("experiment").filter(id=run_id).first()
    if run is not None:
        keep(run, value, attempt)


def keep(run: Run, value: core.RichValue, attempt: int = 0) -> RichValue:
    place = _stored(run, value) if value.data else ""
    old_place = ""
    with transaction.atomic():
        Run.objects.select_for_update().get(id=run.id)  # one writer a run, so that its limit holds
        of_run = RichValue.objects.filter(run=run)
        row = of_run.filter(key=value.key, step=value.step, index=value.index).first()
        if row is None:
            if of_run.count() >= core.MAX_VALUES:
                size, limit = f"{core.MAX_VALUES + 1:,} values", f"{core.MAX_VALUES:,}"
                raise TrainmasterError("too_large", what=f"run {run.id}", size=size, limit=limit)
            row = RichValue(run=run, key=value.key, step=value.step, index=value.index)
        elif row.attempt > attempt:
            return row
        else:
            old_place = row.place
        row.kind, row.at_ms, row.attempt, row.caption = value.kind, value.at_ms, attempt, value.caption
        row.document = dict(value.document) if value.document is not None else None
        row.size, row.media_type, row.place = len(value.data), value.media_type, place
        row.save()
        _touch(run)
    if old_place and old_place != place:
        _delete_bytes([old_place])
    return row


def _touch(run: Run) -> None:
    Run.objects.filter(id=run.id).exclude(state__in=ENDED).update(reported_ms=now_ms())
    sockets.publish(f"run:{run.id}")


def _stored(run: Run, value: core.RichValue) -> str:
    """Writes the bytes before the row. The place is that of the content, so that a repetition writes the same."""
    digest = hashlib.sha256(f"{value.key}\0{value.step}\0{value.index}\0".encode() + value.data).hexdigest()
    place = f"{FOLDER}/{run.id}/{digest[:40]}"
    if len(value.data) > space.left(run.experiment.team_id):
        raise space.full(run.experiment.team_id, f"{value.key} with {format_bytes(len(value.data))}")
    try:
        open_store(settings.STORE_URL).write(place, [value.data], len(value.data))
    except TrainmasterError as error:
        if error.code == "source_unavailable":  # it names folders of the platform
            raise TrainmasterError("unavailable", what="The store") from error
        raise
    return place


def keys(actor: Actor, run: Run) -> list[Key]:
    """The keys of a run, ordered by name. A key has the kind of its newest value."""
    _require_view(actor, run)
    rows = RichValue.objects.filter(run=run).values("key").annotate(
        values=Count("id"), first_step=Min("step"), last_step=Max("step")
    )  # fmt: skip
    newest = RichValue.objects.filter(run=run).order_by("key", "-step", "-index").distinct("key")
    kinds = dict(newest.values_list("key", "kind"))
    return [Key(kind=kinds[row["key"]], **row) for row in rows.order_by("key")]


def steps(actor: Actor, run: Run, key: str) -> list[int]:
    """The steps at which the key has values, in order."""
    _require_view(actor, run)
    rows = RichValue.objects.filter(run=run, key=key)
    return list(rows.order_by("step").values_list("step", flat=True).distinct())


def at_step(actor: Actor, run: Run, key: str, step: int) -> list[RichValue]:
    """The values of a key at a step, by index, with their documents."""
    _require_view(actor, run)
    return list(RichValue.objects.filter(run=run, key=key, step=step).order_by("index"))


def find(actor: Actor, run: Run, key: str, step: int, index: int = 0) -> RichValue:
    """Raises not_found."""
    _require_view(actor, run)
    row = RichValue.objects.filter(run=run, key=key, step=step, index=index).first()
    if row is None:
        raise TrainmasterError("not_found", what=f"value {key[:60]} of step {step}")
    return row


def find_by_id(actor: Actor, run: Run, value_id: int) -> RichValue:
    """Raises not_found."""
    _require_view(actor, run)
    row = RichValue.objects.filter(run=run, id=value_id).first()
    if row is None:
        raise TrainmasterError("not_found", what=f"value {value_id}")
    return row


def listing(
    actor: Actor, run: Run, key: str = "", after: int = 0, limit: int = MOST_LISTED
) -> Sequence[RichValue]:
    """The values of a run, or of one key, in the order of their arrival; `after` is the id of the last one seen."""
    _require_view(actor, run)
    rows = RichValue.objects.filter(run=run, id__gt=after).defer("document")
    return list((rows.filter(key=key) if key else rows).order_by("id")[:limit])


def newest(run_ids: Iterable[str], after: int, limit: int) -> list[RichValue]:
    """The newest values of these runs, newest first; `after` is the id of the last one seen."""
    return list(RichValue.objects.filter(run__in=list(run_ids), id__gt=after).order_by("-id")[:limit])


def read(value: RichValue, offset: int, size: int) -> Iterable[bytes]:
    """The bytes of a value that was found; raises unavailable."""
    return _blocks(value.place, offset, size)


def _blocks(place: str, offset: int, size: int) -> Iterator[bytes]:
    try:
        yield from open_store(settings.STORE_URL).stream_range(place, offset, size)
    except TrainmasterError as error:
        raise TrainmasterError("unavailable", what="The store") from error


def delete_of(run_ids: Iterable[str]) -> None:
    """Deletes the values of these runs with their bytes; before the runs themselves are removed."""
    rows = RichValue.objects.filter(run__in=list(run_ids))
    places = list(rows.exclude(place="").values_list("place", flat=True))
    rows.delete()
    _delete_bytes(places)


def _delete_bytes(places: Iterable[str]) -> None:
    """What cannot be deleted now stays behind."""
    store = open_store(settings.STORE_URL)
    for place in places:
        with suppress(TrainmasterError):
            store.delete(place)


def _require_view(actor: Actor, run: Run) -> None:
    require(actor, "experiment.view", run.experiment.team_id, what=f"run {run.id}")
