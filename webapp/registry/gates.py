"""The gate of a model in use: its policy, the evidence of its versions, and the doors that ask for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from platform_core.errors import TrainmasterError
from platform_core.lineage.graph import Kind
from platform_core.registry import estimates, policy_reader, results
from platform_core.registry.gates import Measurer, Policy, Refused, admit
from platform_core.registry.stages import Stage, needs_gate
from webapp.accounts import permissions
from webapp.accounts import queries as accounts
from webapp.accounts.permissions import SYSTEM, Actor
from webapp.base.identity import now_ms
from webapp.recalls import queries as recalls
from webapp.registry import evidence
from webapp.registry.models import Approval, Evaluation, Model, ModelVersion
from webapp.registry.recording import record

MOST_VALUES = 100_000  # of one evaluation; the bootstrap of more would hold up the request
PROVEN_ALIASES = frozenset({"champion", "production"})  # by which others find what they may use


def policy_of(model: Model) -> Policy:
    return policy_reader.read(model.gate)


@transaction.atomic
def set_policy(actor: Actor, model: Model, fields: Mapping[str, Any]) -> Policy:
    """What a version must have proven from now on; an empty mapping lets everything through.

    Raises request_invalid with the field, and not_allowed. Versions that have their stage keep it, and
    candidates are judged anew.
    """
    row = Model.objects.select_for_update().get(pk=model.pk)
    permissions.require(actor, "model.gate", row.team_id, what=f"model {row.name}")
    policy = policy_reader.read(fields)
    if (policy.uncontaminated or policy.measured_by is Measurer.SERVER) and not policy.suites:
        why = "uncontaminated and measured_by are about suites; name one in a threshold or a margin"
        raise TrainmasterError("request_invalid", what="the gate", why=why)
    row.gate = policy_reader.as_mapping(policy) if policy != Policy() else {}
    row.save(update_fields=["gate"])
    record("GateChanged", row, actor, gate=row.gate)
    for version in row.versions.filter(stage=Stage.CANDIDATE, deleted_ms=None).select_related("model"):
        validate(version)
    return policy


@dataclass(frozen=True, slots=True)
class Measurement:
    """Where results come from that the server measured."""

    job: str
    suite_version: int
    contamination: Mapping[str, Any]


def evaluate(actor: Actor, version: ModelVersion, suite: str, lines: Iterable[str]) -> Evaluation:
    """Keeps the results of one suite that a person sends, in place of earlier ones that people sent.

    Intervals are drawn from a fixed seed. Raises request_invalid with the line, and not_allowed.
    """
    permissions.require(actor, "model.register", version.model.team_id)
    return _keep(actor, version, suite, lines, None)


def keep_measured(
    author: Actor, version: ModelVersion, suite: str, lines: Iterable[str], measurement: Measurement
) -> Evaluation:
    """Keeps what a job of the platform measured, by a suite of this author. Raises request_invalid with the line."""
    return _keep(author, version, suite, lines, measurement)


@transaction.atomic
def _keep(
    actor: Actor, version: ModelVersion, suite: str, lines: Iterable[str], measurement: Measurement | None
) -> Evaluation:
    if not 0 < len(suite) <= 250 or not suite.isprintable():
        why = f"{suite[:60]!r} must have 1 to 250 printable characters"
        raise TrainmasterError("request_invalid", what="suite", why=why)
    samples = results.read(lines)
    values = sum(len(sample.metrics) * (1 + len(sample.slices)) for sample in samples)
    if values > MOST_VALUES:
        why = f"it has {values:,} values, those of slices counted again; the limit is {MOST_VALUES:,}"
        raise TrainmasterError("request_invalid", what="the evaluation", why=why)
    rng = evidence.rng(version, suite)
    by_slice = estimates.by_slice(samples, rng)
    fields = {
        "metrics": evidence.written(estimates.by_metric(samples, rng)),
        "slices": {name: evidence.written(metrics) for name, metrics in by_slice.items()},
        "samples": evidence.packed(samples),
        "digest": evidence.digest_of(samples),
        "sample_count": len(samples),
        "evaluated_ms": now_ms(),
        "evaluated_by": accounts.user(actor.username),
        "compared": {},
        "job_id": measurement.job if measurement else None,
        "suite_version": measurement.suite_version if measurement else None,
        "contamination": dict(measurement.contamination) if measurement else {},
    }
    by_server = measurement is not None
    row, _ = Evaluation.objects.update_or_create(
        version=version, suite=suite, by_server=by_server, defaults=fields
    )
    measured_by = "server" if by_server else "person"
    record(
        "VersionEvaluated", version.model, actor,
        version=version.version, suite=suite, measured_by=measured_by, digest=row.digest,
    )  # fmt: skip
    validate(version)
    return row


def keep_validation(version: ModelVersion, validation: Mapping[str, Any]) -> None:
    """What a job of the platform found in the weights: `problem`, "" where they passed, and its numbers."""
    version.validation = {**validation, "at_ms": now_ms()}
    ModelVersion.objects.filter(pk=version.pk).update(validation=version.validation)
    validate(version)


def validate(version: ModelVersion) -> None:
    """Makes a candidate "validated" when what is known of it now passes the gate of its model, if that has one."""
    if not version.model.gate or version.stage != Stage.CANDIDATE or refusals(version, Stage.VALIDATED):
        return
    rows = ModelVersion.objects.filter(pk=version.pk, stage=Stage.CANDIDATE, deleted_ms=None)
    if rows.update(stage=Stage.VALIDATED, changed_ms=now_ms()):
        record(
            "VersionStageChanged", version.model, SYSTEM, version=version.version, stage="validated",
            reason="it passes the gate of its model",
        )  # fmt: skip


@transaction.atomic
def approve(actor: Actor, version: ModelVersion, seen: str = "") -> None:
    """Approves the version for the results that there are now. Again: for the new ones.

    `seen` is the digest of the results that the actor saw; stale_version is raised where others have come since.
    Whether it counts is decided by the gate: never for who registered the version.
    """
    permissions.require(actor, "model.approve", version.model.team_id)
    current = evidence.digest(version, policy_of(version.model))
    if seen and seen != current:
        raise TrainmasterError("stale_version", what=f"The evidence of {version}", seen=seen[:12])
    role = "lead" if actor.is_admin else actor.roles[version.model.team_id].value
    user = accounts.user(actor.username)
    given = {"role": role, "approved_ms": now_ms(), "evidence": current}
    row, new = Approval.objects.get_or_create(version=version, user=user, defaults=given)
    if not new and row.evidence == current:
        return
    if not new:
        Approval.objects.filter(pk=row.pk).update(**given)
    record("VersionApproved", version.model, actor, version=version.version, role=role, evidence=current)


@transaction.atomic
def withdraw(actor: Actor, version: ModelVersion) -> None:
    """One's own approval; none is no error."""
    permissions.require(actor, "model.approve", version.model.team_id)
    if Approval.objects.filter(version=version, user__username=actor.username).delete()[0]:
        record("ApprovalWithdrawn", version.model, actor, version=version.version)


def refusals(version: ModelVersion, target: Stage) -> tuple[str, ...]:
    """Why the version may not enter this stage now; empty: it may."""
    return standing(version, (target,))[target]


def standing(
    version: ModelVersion, targets: Iterable[Stage] = (Stage.STAGING, Stage.PRODUCTION)
) -> dict[Stage, tuple[str, ...]]:
    """The reasons against each stage."""
    if why := recalls.why(Kind.MODEL, version.id):
        return dict.fromkeys(targets, (why,))
    if not version.model.gate:
        return dict.fromkeys(targets, ())
    policy = policy_of(version.model)
    known = evidence.of(version, policy)
    verdicts = {target: admit(target, policy, known) for target in targets}
    return {
        target: verdict.reasons if isinstance(verdict, Refused) else ()
        for target, verdict in verdicts.items()
    }


def require_promotion(actor: Actor, version: ModelVersion, stage: str, override: str = "") -> None:
    """The gate of a move to this stage. Raises gate_refused with every reason.

    `override` is the reason of an admin who lets the version through all the same; it is recorded.
    """
    target = Stage(stage)
    if not needs_gate(Stage(version.stage), target):
        return
    reasons = refusals(version, target)
    if not reasons:
        return
    if not override.strip():
        raise _refused(version, f"enter {target.value}", reasons)
    if not actor.is_admin:
        raise TrainmasterError("not_allowed", what="override the gate of a model", whom="a platform admin")
    record(
        "GateOverridden", version.model, actor,
        version=version.version, stage=stage, reason=override.strip()[:2000], refused=list(reasons),
    )  # fmt: skip


def require_proven(version: ModelVersion, what: str) -> None:
    """That the version is in a stage behind the gate, or would pass it now. Raises gate_refused."""
    if why := recalls.why(Kind.MODEL, version.id):
        raise _refused(version, what, [why])
    if version.stage in {Stage.STAGING, Stage.PRODUCTION}:
        return
    if reasons := refusals(version, Stage.VALIDATED):
        raise _refused(version, what, reasons)


def _refused(version: ModelVersion, what: str, reasons: Iterable[str]) -> TrainmasterError:
    return TrainmasterError("gate_refused", version=str(version), what=what, reasons="; ".join(reasons))
