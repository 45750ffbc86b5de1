"""What the page of a job shows of the comparisons of its ranks."""

from __future__ import annotations

from dataclasses import dataclass

from webapp.jobs import corruption
from webapp.jobs.models import Corruption, Job
from webapp.nodes import queries as cluster_queries


@dataclass(frozen=True, slots=True)
class Row:
    attempt: int
    step: int
    at_ms: int
    guilty: bool  # whether it is known which node it was
    nodes: tuple[tuple[str, str], ...]  # id and hostname
    sentence: str


@dataclass(frozen=True, slots=True)
class CorruptionPanel:
    policy: str
    agreed: str
    rows: tuple[Row, ...]


def of_job(job: Job) -> CorruptionPanel | None:
    """None for a job that compares nothing."""
    policy = job.spec.get("corruption_check") or {}
    found = corruption.of_job(job)
    every, tolerance = policy.get("every_steps", 0), policy.get("tolerance_ppm", 0)
    if not (every or found.corruptions or found.agreed_step is not None):
        return None
    exactly = f"within {tolerance:,} ppm" if tolerance else "bit by bit"
    agreed = "No comparison of its ranks so far"
    if found.agreed_step is not None:
        agreed = f"Agreed at step {found.agreed_step:,}, attempt {found.agreed_attempt}"
    return CorruptionPanel(
        f"Every {every:,} steps, {exactly}" if every else "Set by the script",
        agreed,
        tuple(_row(row) for row in found.corruptions),
    )


def _row(row: Corruption) -> Row:
    ids = row.nodes or row.suspects
    hostnames = [cluster_queries.all_with_hostnames([node])[0] for node in ids]
    return Row(
        row.attempt.number,
        row.step,
        row.at_ms,
        bool(row.nodes),
        tuple(zip(ids, hostnames, strict=True)),
        row.sentence,
    )
