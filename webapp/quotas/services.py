"""Admission to the queue, the ledger of GPU use, quotas and prices."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction
from django.db.models import Sum

from platform_core.errors import TrainmasterError
from platform_core.quotas import guarantees
from platform_core.quotas.admission import Refused, Request
from platform_core.quotas.admission import admit as decide
from platform_core.quotas.limits import Usage
from platform_core.units import format_micro_dollars
from webapp.accounts import queries as accounts
from webapp.accounts.permissions import Actor, require
from webapp.base.rows import update_each
from webapp.events import services as events
from webapp.nodes import queries as nodes
from webapp.quotas import mapping, queries
from webapp.quotas.models import LedgerEntry, Price, Quota
from webapp.quotas.signals import limits_changed

MOST = 1_000_000
GPU_TYPE = re.compile(r"[a-z0-9][a-z0-9-]{0,59}")


def admit(team_slug: str, gpu_type: str, gpus: int, queued_gpus: Callable[[], int]) -> None:
    """Admits a job of this size to the queue, or raises quota_exceeded with the numbers.

    Belongs inside the caller's transaction: where what the team has counts, the quota row stays locked until the job is
    kept, so two jobs submitted at once are counted one by one. `queued_gpus` counts what its waiting jobs ask for.
    """
    quota = Quota.objects.filter(team=team_slug, gpu_type=gpu_type)
    request = Request(team=team_slug, gpu_type=gpu_type, gpus=gpus)
    limits = mapping.limits(quota.first())
    if limits is not None and limits.queue_beyond and gpus <= limits.maximum:
        return  # what is beyond the maximum waits: whatever the team has, it is let in
    limits = mapping.limits(quota.select_for_update().first())
    usage = Usage(held=queries.held(team_slug, gpu_type), queued=queued_gpus())
    decision = decide(request, usage, limits)
    if isinstance(decision, Refused):
        raise TrainmasterError("quota_exceeded", decision.sentence, **dict(decision.numbers))


@dataclass(frozen=True, slots=True)
class Holding:
    """Slots of one node that an attempt holds."""

    attempt_id: str
    job_id: str
    node_id: str
    team: str
    user_id: int
    gpu_type: str
    slots: int


def open_entries(holdings: Sequence[Holding], at_ms: int) -> None:
    """Opens ledger entries. Belongs in the transaction that assigns the slots; idempotent."""
    prices = queries.prices()
    entries = [
        LedgerEntry(
            attempt_id=holding.attempt_id,
            node_id=holding.node_id,
            job_id=holding.job_id,
            team_id=holding.team,
            user_id=holding.user_id,
            gpu_type=holding.gpu_type,
            slots=holding.slots,
            started_ms=at_ms,
            micro_dollars_per_hour=prices.get(holding.gpu_type, 0),
        )
        for holding in holdings
    ]
    LedgerEntry.objects.bulk_create(entries, ignore_conflicts=True)


def close_entries(ends: Mapping[tuple[str, str], int]) -> int:
    """Closes ledger entries by (attempt, node) → end. Returns how many were closed."""
    living = LedgerEntry.objects.select_for_update(no_key=True).filter(
        attempt_id__in={attempt_id for attempt_id, _ in ends}, ended_ms=None
    )
    rows = living.order_by("id").values_list("id", "attempt_id", "node_id")
    closed = {
        key: {"ended_ms": ends[attempt, node]} for key, attempt, node in rows if (attempt, node) in ends
    }
    return update_each(LedgerEntry, closed)


@transaction.atomic
def edit_quota(
    actor: Actor,
    team: str,
    gpu_type: str,
    *,
    guaranteed: int,
    maximum: int,
    queue_beyond: bool,
    version: int,
    cause: str = "",
) -> None:
    """Sets the quota of a team. `version` is the one that the editor saw, 0 for a type without a quota.

    Raises guarantee_too_large beyond the slots of the cluster, except before the first node of the type.
    """
    require(actor, "quota.edit", team)
    if accounts.team(team).archived_ms is not None:
        why = "it is archived; a platform admin restores it first"
        raise TrainmasterError("request_invalid", what=f"A quota of {team}", why=why)
    _refuse_bad_numbers(gpu_type, guaranteed, maximum)
    row = Quota.objects.select_for_update().filter(team=team, gpu_type=gpu_type).first()
    before = mapping.as_data(row)
    if row is not None and version == 0:
        raise TrainmasterError("duplicate_name", what=f"A quota of {team} for", name=gpu_type)
    if (row.version if row else 0) != version:
        raise TrainmasterError("stale_version", what=f"The quota of {team} for {gpu_type}", seen=version)
    _refuse_beyond_the_cluster(team, gpu_type, row.guaranteed if row else 0, guaranteed)
    if row is None:
        row = Quota(team_id=team, gpu_type=gpu_type, version=0)
    row.guaranteed, row.maximum, row.queue_beyond = guaranteed, maximum, queue_beyond
    row.version += 1
    row.save()
    after = mapping.as_data(row)
    if after != before:
        _record_change(actor, team, gpu_type, before, after, cause)


def delete_quotas(actor: Actor, team: str) -> None:
    """Deletes the quotas of a team. Running attempts keep their slots. Belongs in the transaction that archives it."""
    for row in Quota.objects.select_for_update().filter(team=team).order_by("gpu_type"):
        before = mapping.as_data(row)
        row.delete()
        _record_change(actor, team, row.gpu_type, before, None, "the team is archived")


def _record_change(
    actor: Actor,
    team: str,
    gpu_type: str,
    before: dict[str, Any] | None,
    after: dict[str, Any] | None,
    cause: str,
) -> None:
    events.record(
        "QuotaChanged",
        f"quota:{team}/{gpu_type}",
        actor=actor.name,
        team=team,
        cause=_in_words(gpu_type, before, after, cause),
        data={"gpu_type": gpu_type, "before": before, "after": after},
        notify=(f"team:{team}",),
    )
    limits_changed.send(Quota, team=team, gpu_type=gpu_type)


@transaction.atomic
def set_price(actor: Actor, gpu_type: str, micro_dollars_per_hour: int) -> None:
    """Sets what a GPU costs from now on. Running jobs keep the price they started with."""
    require(actor, "platform.manage")
    _refuse_bad_type(gpu_type)
    if not 0 <= micro_dollars_per_hour <= 10**12:
        raise TrainmasterError(
            "request_invalid", what="The price", why="it must be 0 to 1,000,000 dollars an hour"
        )
    before = queries.prices().get(gpu_type)
    Price.objects.update_or_create(
        gpu_type=gpu_type, defaults={"micro_dollars_per_hour": micro_dollars_per_hour}
    )
    data = {"gpu_type": gpu_type, "before": before, "micro_dollars_per_hour": micro_dollars_per_hour}
    cause = f"{gpu_type} costs {format_micro_dollars(micro_dollars_per_hour)} an hour"
    events.record("PriceChanged", f"price:{gpu_type}", actor=actor.name, cause=cause, data=data)


def _in_words(gpu_type: str, before: dict[str, Any] | None, after: dict[str, Any] | None, cause: str) -> str:
    """ "cpu 4 to 8 → 2 to 6, beyond it refused: a smaller budget" """

    def limits(data: dict[str, Any] | None) -> str:
        return f"{data['guaranteed']} to {data['maximum']}" if data else "none"

    words = f"{gpu_type} {limits(before)} → {limits(after)}"
    if after:
        words += f", beyond it {'queued' if after['queue_beyond'] else 'refused'}"
    return f"{words}: {cause}" if cause else words


def _refuse_beyond_the_cluster(team: str, gpu_type: str, before: int, wanted: int) -> None:
    with connection.cursor() as cursor:  # two guarantees raised at once are counted one by one
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [f"guarantees of {gpu_type}"])
    others = Quota.objects.filter(gpu_type=gpu_type).exclude(team=team)
    guaranteed = others.aggregate(total=Sum("guaranteed", default=0))["total"]
    asked = guarantees.Raise(team, gpu_type, before, wanted)
    refused = guarantees.admit(asked, guaranteed, nodes.registered_slots().get(gpu_type, 0))
    if refused is not None:
        raise TrainmasterError(refused.code, refused.sentence, **dict(refused.numbers))


def _refuse_bad_numbers(gpu_type: str, guaranteed: int, maximum: int) -> None:
    _refuse_bad_type(gpu_type)
    if not 0 <= guaranteed <= maximum <= MOST:
        why = f"{guaranteed} guaranteed, {maximum} at most; it must be 0 ≤ guaranteed ≤ maximum ≤ {MOST:,}"
        raise TrainmasterError("request_invalid", what=f"The quota for {gpu_type}", why=why)


def _refuse_bad_type(gpu_type: str) -> None:
    if not GPU_TYPE.fullmatch(gpu_type):
        why = "a GPU type is written like a100-80gb: lower-case letters, digits and dashes"
        raise TrainmasterError("request_invalid", what=f"The GPU type {gpu_type!r}", why=why)
