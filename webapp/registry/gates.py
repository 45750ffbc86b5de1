"""The gate of a model in use: its policy, the evidence of its versions, and the doors that ask for it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import zstandard
from django.db import transaction
from django.db.models import QuerySet

from platform_core.errors import TrainmasterError
from platform_core.lineage.graph import Kind
from platform_core.registry import estimates, policy_reader, results
from platform_core.registry.gates import Approval as GivenApproval
from platform_core.registry.gates import Evaluation as Measured
from platform_core.registry.gates import Evidence, Policy, Refused, admit
from platform_core.registry.stages import Stage, needs_gate
from webapp.accounts import permissions
from webapp.accounts import queries as accounts
from webapp.accounts.permissions import Actor
from webapp.base.identity import now_ms
from webapp.recalls import queries as recalls
from webapp.registry.models import Approval, Evaluation, Model, ModelVersion
from webapp.registry.recording import record

MOST_VALUES = 100_000  # of one evaluation; the bootstrap of more would hold up the request
STAGES = {
    "none": Stage.CANDIDATE, "staging": Stage.STAGING, "production": Stage.PRODUCTION, "archived": Stage.ARCHIVED,
}  # fmt: skip
PROVEN_ALIASES = frozenset({"champion", "production"})  # by which others find what they may use


def policy_of(model: Model) -> Policy:
    return policy_reader.read(model.gate)


@transaction.atomic
def set_policy(actor: Actor, model: Model, fields: Mapping[str, Any]) -> Policy:
    """What a version must have proven from now on; an empty mapping lets everything through.

    Raises request_invalid with the field, and not_allowed. Versions that have their stage keep it.
    """
    row = Model.objects.select_for_update().get(pk=model.pk)
    permissions.require(actor, "model.gate", row.team_id, what=f"model {row.name}")
    policy = policy_reader.read(fields)
    if policy.self_validation or policy.uncontaminated:
        why = "nothing on this platform measures self_validation and uncontaminated yet; leave them out"
        raise TrainmasterError("request_invalid", what="the gate", why=why)
    row.gate = policy_reader.as_mapping(policy) if policy != Policy() else {}
    row.save(update_fields=["gate"])
    record("GateChanged", row, actor, gate=row.gate)
    return policy


@transaction.atomic
def evaluate(actor: Actor, version: ModelVersion, suite: str, lines: Iterable[str]) -> Evaluation:
    """Keeps the results of one suite, in place of its earlier ones. Intervals are drawn from a fixed seed.

    Raises request_invalid with the line, and not_allowed.
    """
    permissions.require(actor, "model.register", version.model.team_id)
    if not 0 < len(suite) <= 250 or not suite.isprintable():
        why = f"{suite[:60]!r} must have 1 to 250 printable characters"
        raise TrainmasterError("request_invalid", what="suite", why=why)
    samples = results.read(lines)
    values = sum(len(sample.metrics) * (1 + len(sample.slices)) for sample in samples)
    if values > MOST_VALUES:
        why = f"it has {values:,} values, those of slices counted again; the limit is {MOST_VALUES:,}"
        raise TrainmasterError("request_invalid", what="the evaluation", why=why)
    rng = _rng(version, suite)
    by_slice = estimates.by_slice(samples, rng)
    fields = {
        "metrics": _written(estimates.by_metric(samples, rng)),
        "slices": {name: _written(metrics) for name, metrics in by_slice.items()},
        "samples": _packed(samples),
        "sample_count": len(samples),
        "evaluated_ms": now_ms(),
        "evaluated_by": accounts.user(actor.username),
        "compared": {},
    }
    row, _ = Evaluation.objects.update_or_create(version=version, suite=suite, defaults=fields)
    record("VersionEvaluated", version.model, actor, version=version.version, suite=suite)
    return row


@transaction.atomic
def approve(actor: Actor, version: ModelVersion) -> None:
    """Idempotent. Whether it counts is decided by the gate: never for who registered the version."""
    permissions.require(actor, "model.approve", version.model.team_id)
    role = "lead" if actor.is_admin else actor.roles[version.model.team_id].value
    user = accounts.user(actor.username)
    _, new = Approval.objects.get_or_create(
        version=version, user=user, defaults={"role": role, "approved_ms": now_ms()}
    )
    if new:
        record("VersionApproved", version.model, actor, version=version.version, role=role)


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
    evidence = _evidence(version, policy)
    verdicts = {target: admit(target, policy, evidence) for target in targets}
    return {
        target: verdict.reasons if isinstance(verdict, Refused) else ()
        for target, verdict in verdicts.items()
    }


def require_promotion(actor: Actor, version: ModelVersion, stage: str, override: str = "") -> None:
    """The gate of a move to this stage. Raises gate_refused with every reason.

    `override` is the reason of an admin who lets the version through all the same; it is recorded.
    """
    target = STAGES[stage]
    if not needs_gate(STAGES[version.stage], target):
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
    if STAGES[version.stage] in {Stage.STAGING, Stage.PRODUCTION}:
        return
    if reasons := refusals(version, Stage.VALIDATED):
        raise _refused(version, what, reasons)


def _refused(version: ModelVersion, what: str, reasons: Iterable[str]) -> TrainmasterError:
    return TrainmasterError("gate_refused", version=str(version), what=what, reasons="; ".join(reasons))


def _evidence(version: ModelVersion, policy: Policy) -> Evidence:
    others = version.model.versions.filter(stage="production", deleted_ms=None).exclude(pk=version.pk)
    production = others.order_by("-changed_ms", "-version").first()
    of_production = {row.suite: row for row in _evaluations(production)} if production else {}
    metrics: dict[str, set[str]] = {}  # of each suite, that are compared
    for margin in policy.margins:
        metrics.setdefault(margin.suite, set()).add(margin.metric)
    return Evidence(
        evaluations={
            row.suite: Measured(
                row.suite,
                _read(row.metrics),
                {name: _read(of_slice) for name, of_slice in row.slices.items()},
                _compared(row, of_production.get(row.suite), sorted(metrics.get(row.suite, ()))),
            )
            for row in _evaluations(version)
        },
        registered_by=version.created_by.username,
        approvals=tuple(
            GivenApproval(row.user.username, row.role) for row in version.approvals.select_related("user")
        ),
        has_production=production is not None,
    )


def _evaluations(version: ModelVersion) -> QuerySet[Evaluation]:
    """Their samples may have megabytes, and are read only to be compared."""
    return version.evaluations.defer("samples")


def _compared(
    row: Evaluation, production: Evaluation | None, metrics: Sequence[str]
) -> dict[str, estimates.Difference]:
    """Drawn once for each pair of evaluations, and kept."""
    if production is None or not metrics:
        return {}
    pair = f"{production.pk} of {production.evaluated_ms}: {' '.join(metrics)}"
    if row.compared.get("pair") != pair:
        mine, theirs = (_unpacked(one.samples, set(metrics)) for one in (row, production))
        drawn = estimates.differences(mine, theirs, _rng(row.version, row.suite))
        row.compared = {"pair": pair, "metrics": _written(drawn)}
        Evaluation.objects.filter(pk=row.pk, evaluated_ms=row.evaluated_ms).update(compared=row.compared)
    return {
        name: estimates.Difference(**_numbers(measured), pairs=measured["pairs"])
        for name, measured in row.compared["metrics"].items()
    }


def _rng(version: ModelVersion, suite: str) -> np.random.Generator:
    """The same numbers each time: a verdict changes with the evidence, not with the draw."""
    seed = hashlib.sha256(f"{version.pk}\n{suite}".encode()).digest()[:8]
    return np.random.default_rng(int.from_bytes(seed))


def _written(metrics: Mapping[str, estimates.Estimate | estimates.Difference]) -> dict[str, Any]:
    """NaN has no place in JSON of PostgreSQL."""
    return {
        name: {key: value if math.isfinite(value) else None for key, value in asdict(measured).items()}
        for name, measured in metrics.items()
    }


def _read(metrics: Mapping[str, Mapping[str, Any]]) -> dict[str, estimates.Estimate]:
    return {
        name: estimates.Estimate(**_numbers(measured), samples=measured["samples"])
        for name, measured in metrics.items()
    }


def _numbers(measured: Mapping[str, Any]) -> dict[str, float]:
    return {key: math.nan if measured[key] is None else measured[key] for key in ("mean", "low", "high")}


def _packed(samples: Iterable[estimates.Sample]) -> bytes:
    rows = [[sample.id, sample.metrics] for sample in samples]
    return zstandard.compress(json.dumps(rows).encode())


def _unpacked(packed: bytes | memoryview, wanted: Collection[str]) -> tuple[estimates.Sample, ...]:
    return tuple(
        estimates.Sample(id, {name: value for name, value in metrics.items() if name in wanted})
        for id, metrics in json.loads(zstandard.decompress(bytes(packed)))
    )
