"""What is known of a version when its gate is asked: results, comparisons with production, approvals."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import zstandard
from django.db.models import QuerySet

from platform_core.lineage.graph import Kind
from platform_core.registry import estimates
from platform_core.registry.gates import Approval as GivenApproval
from platform_core.registry.gates import Evaluation as Measured
from platform_core.registry.gates import Evidence, Measurer, Policy
from webapp.recalls import queries as recalls
from webapp.registry import exports
from webapp.registry.models import Evaluation, ModelVersion


def of(version: ModelVersion, policy: Policy) -> Evidence:
    others = version.model.versions.filter(stage="production", deleted_ms=None).exclude(pk=version.pk)
    production = others.order_by("-changed_ms", "-version").first()
    of_production = _by_suite(production, policy) if production else {}
    metrics: dict[str, set[str]] = {}  # of each suite, that are compared
    for margin in policy.margins:
        metrics.setdefault(margin.suite, set()).add(margin.metric)
    current = digest(version, policy)
    return Evidence(
        evaluations={
            suite: _measured(row, _compared(row, of_production.get(suite), sorted(metrics.get(suite, ()))))
            for suite, row in _by_suite(version, Policy()).items()
        },
        registered_by=version.created_by.username,
        approvals=tuple(
            GivenApproval(row.user.username, row.role, row.evidence == current)
            for row in version.approvals.select_related("user")
        ),
        self_validated=version.validation["problem"] == "" if version.validation else None,
        self_validation_problem=version.validation.get("problem", ""),
        export_refusals=exports.refusals(version, policy.serving_target) if policy.serving_target else (),
        has_production=production is not None,
    )


def digest(version: ModelVersion, policy: Policy) -> str:
    """Of all that an approver is shown of what the policy asks for: other results give another one."""
    rows = _by_suite(version, Policy())
    shown = [
        [suite, rows[suite].by_server, rows[suite].digest, rows[suite].contamination.get("shared")]
        for suite in sorted(policy.suites & rows.keys())
    ]
    validated = version.validation.get("problem") if policy.self_validation else None
    exported = [version.exports.get("report")] if policy.serving_target else []
    return hashlib.sha256(json.dumps([shown, validated, *exported]).encode()).hexdigest()


def digest_of(samples: Iterable[estimates.Sample]) -> str:
    rows = sorted([sample.id, sorted(sample.metrics.items()), sample.slices] for sample in samples)
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def evaluations(version: ModelVersion) -> QuerySet[Evaluation]:
    """Their samples may have megabytes, and are read only to be compared."""
    return version.evaluations.defer("samples").select_related("evaluated_by")


def _by_suite(version: ModelVersion, policy: Policy) -> dict[str, Evaluation]:
    """What the server measured before what people sent; nothing of a job that was recalled, with its data perhaps."""
    rows = evaluations(version).exclude(job__in=recalls.marked(Kind.RUN)).order_by("suite", "by_server")
    if policy.measured_by is Measurer.SERVER:
        rows = rows.filter(by_server=True)
    return {row.suite: row for row in rows}


def _measured(row: Evaluation, differences: Mapping[str, estimates.Difference]) -> Measured:
    return Measured(
        row.suite,
        _read(row.metrics),
        {name: _read(of_slice) for name, of_slice in row.slices.items()},
        differences,
        by_server=row.by_server,
        contaminated=row.contamination.get("shared"),
        contamination_problem=row.contamination.get("problem", "")
        or "a person sent the results; let the server evaluate it",
    )


def _compared(
    row: Evaluation, production: Evaluation | None, metrics: Sequence[str]
) -> dict[str, estimates.Difference]:
    """Drawn once for each pair of evaluations, and kept."""
    if production is None or not metrics or production.suite_version != row.suite_version:
        return {}
    pair = f"{production.pk} of {production.evaluated_ms}: {' '.join(metrics)}"
    if row.compared.get("pair") != pair:
        mine, theirs = (_unpacked(one.samples, set(metrics)) for one in (row, production))
        drawn = estimates.differences(mine, theirs, rng(row.version, row.suite))
        row.compared = {"pair": pair, "metrics": written(drawn)}
        Evaluation.objects.filter(pk=row.pk, evaluated_ms=row.evaluated_ms).update(compared=row.compared)
    return {
        name: estimates.Difference(**_numbers(measured), pairs=measured["pairs"])
        for name, measured in row.compared["metrics"].items()
    }


def rng(version: ModelVersion, suite: str) -> np.random.Generator:
    """The same numbers each time: a verdict changes with the evidence, not with the draw."""
    seed = hashlib.sha256(f"{version.pk}\n{suite}".encode()).digest()[:8]
    return np.random.default_rng(int.from_bytes(seed))


def written(metrics: Mapping[str, estimates.Estimate | estimates.Difference]) -> dict[str, Any]:
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


def packed(samples: Iterable[estimates.Sample]) -> bytes:
    rows = [[sample.id, sample.metrics] for sample in samples]
    return zstandard.compress(json.dumps(rows).encode())


def _unpacked(packed: bytes | memoryview, wanted: Collection[str]) -> tuple[estimates.Sample, ...]:
    return tuple(
        estimates.Sample(id, {name: value for name, value in metrics.items() if name in wanted})
        for id, metrics in json.loads(zstandard.decompress(bytes(packed)))
    )
