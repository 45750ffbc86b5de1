"""Which checkpoints of a job stay by its rule or by another one, and the bytes that they take."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.db.models import F, Q, Sum

from platform_core.checkpointing.retention import Kept, Reason, look_again_ms, reasons
from platform_core.jobs import spec as specification
from platform_core.jobs.checkpoint_policy import CheckpointPolicy
from platform_core.jobs.fields import read_fields
from platform_core.jobs.reader import Problem, Reader, SpecError
from platform_core.jobs.retention_policy import RetentionPolicy
from webapp.accounts import permissions
from webapp.accounts.permissions import Actor
from webapp.artifacts import queries as artifacts
from webapp.base.identity import now_ms
from webapp.checkpoints import queries, turns
from webapp.checkpoints.models import Checkpoint, RetentionRule
from webapp.events import services as events
from webapp.jobs import queries as jobs

if TYPE_CHECKING:
    from webapp.jobs.models import Job


@dataclass(frozen=True, slots=True)
class Rule:
    keep_last: int
    policy: RetentionPolicy


@dataclass(frozen=True, slots=True)
class Bytes:
    """Of the checkpoints in the store. Files that several share count once."""

    job: int
    team: int


def rule_of(job: Job) -> Rule:
    """What somebody set later, else what its job file says."""
    if later := getattr(job, "retention_rule", None):
        return read_rule(later.rule)
    spec = specification.restore(job.spec)
    return Rule(spec.checkpoint.keep_last, spec.retention)


@transaction.atomic
def set_rule(actor: Actor, job: Job, body: Mapping[str, Any]) -> Rule:
    """From now on this rule holds for the job, and deletes what it does not keep. Raises SpecError and not_allowed."""
    permissions.require(actor, "job.save", job.team_id, owner=job.user.username, what=f"job {job.name}")
    rule = read_rule(body)
    RetentionRule.objects.update_or_create(
        job=job, defaults={"rule": dict(body), "set_by": actor.username, "set_ms": now_ms()}
    )
    turns.give([job.id])
    events.record(
        "RetentionRuleSet",
        f"job:{job.id}",
        actor=actor.name,
        team=job.team_id,
        data={"name": job.name, "rule": dict(body)},
    )
    return rule


def read_rule(body: Mapping[str, Any]) -> Rule:
    """`keep_last` and the fields of `retention`. Raises SpecError with each problem."""
    problems: list[Problem] = []
    mapping = dict(body)
    last = {"keep_last": mapping.pop("keep_last")} if "keep_last" in mapping else {}
    reader = Reader(mapping, problems)
    policy: RetentionPolicy = read_fields(RetentionPolicy, reader)
    reader.refuse_the_rest()
    newest: CheckpointPolicy = read_fields(CheckpointPolicy, Reader(last, problems))
    if problems:
        raise SpecError(tuple(problems))
    return Rule(newest.keep_last, policy)


def of_job(
    job: Job, rule: Rule | None = None, saved: Iterable[Checkpoint] | None = None
) -> list[tuple[Checkpoint, Reason]]:
    """What becomes of each checkpoint in the store, the newest first: by this rule, else by the job's own.

    `saved` are all checkpoints of the job, where the caller has read them.
    """
    found = queries.with_recalls(Checkpoint.objects.filter(job=job)) if saved is None else saved
    rows = [row for row in found if row.deleted_ms is None]
    told = decide(rows, rule or rule_of(job), jobs.needed_checkpoints()) if rows else []
    by_id = {row.id: row for row in rows}
    return [(by_id[reason.id], reason) for reason in told]


def decide(rows: Sequence[Checkpoint], rule: Rule, needed: Collection[str]) -> list[Reason]:
    """`needed`: checkpoints from which jobs may still start. What a model version uses stays as well.

    The rows are of `queries.with_recalls`: recalled ones stay as evidence, and do not count as good.
    """
    return reasons(facts(rows, needed), rule.keep_last, rule.policy, now_ms())


def facts(rows: Sequence[Checkpoint], needed: Collection[str]) -> list[Kept]:
    used = artifacts.referenced([row.manifest_id for row in rows], besides="checkpoints.Checkpoint")
    return [
        Kept(
            row.id, row.attempt, row.step, bool(row.pinned_by),
            not row.damaged and not row.recalled, row.saved_ms,
            tuple(sorted(row.metrics.items())), row.id in needed or row.recalled or row.manifest_id in used,
        )
        for row in rows
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Verdict:
    goes: list[Checkpoint]  # the oldest first
    next_ms: int | None  # when to look again though nothing has happened; None: never


def verdict(rows: Sequence[Checkpoint], needed: Collection[str]) -> Verdict:
    """Of all checkpoints in the store of one job, by step, with their job and `recalled`."""
    if not rows:
        return Verdict([], None)
    rule = rule_of(rows[0].job)
    told = decide(rows, rule, needed)
    surplus = {reason.id for reason in told if not reason.stays}
    saved_ms = {row.id: row.saved_ms for row in rows}
    stay = [reason for reason in told if reason.stays]
    return Verdict(
        [row for row in rows if row.id in surplus], look_again_ms(stay, saved_ms, rule.policy, now_ms())
    )


def bytes_of(job: Job) -> Bytes:
    living = Checkpoint.objects.filter(deleted_ms=None, job__team=job.team_id)
    own = F("manifest__total_bytes") - F("manifest__shared_bytes")
    return Bytes(**living.aggregate(job=Sum(own, filter=Q(job=job), default=0), team=Sum(own, default=0)))
