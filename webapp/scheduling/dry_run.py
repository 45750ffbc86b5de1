"""Dry runs: the engine plans a round with one more job, which has not been submitted."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from platform_core.cluster.snapshot import Snapshot
from platform_core.jobs.spec import JobSpec, parse
from platform_core.quotas.admission import Refused
from platform_core.scheduling.engine import plan
from platform_core.scheduling.forecast.changes import changes
from platform_core.scheduling.forecast.start_times import forecast
from webapp.accounts.permissions import Actor
from webapp.base.identity import now_ms
from webapp.jobs import queries as job_queries
from webapp.jobs import services as job_services
from webapp.jobs import workload
from webapp.quotas import queries as quotas
from webapp.scheduling import queries, situation


@dataclass(frozen=True, slots=True)
class Outlook:
    """Why a job would wait ("": it would start at once), its position among jobs of its GPU type, its expected start
    ("": unknown), and single changes that would start it at once."""

    why: str
    position: int
    starts: str
    changes: tuple[str, ...]


_ASKED = "job-~asked"  # sorts after every real id, so that it never goes before an equal
# Bounds the work of a forecast for a form: ten rounds, a few seconds, on a large cluster.
_JOBS_PLAYED = 60_000
_LEAST_ROUNDS, _MOST_ROUNDS = 5, 100


def why_it_would_wait(spec: JobSpec, username: str) -> str:
    """The engine's sentence, or "" when it would start in the next round."""
    decided = plan(_with_it(spec, username), situation.policy())
    return next((wait.sentence for wait in decided.waits if wait.job_id == _ASKED), "")


def outlook(spec: JobSpec, username: str) -> Outlook:
    """All answers come from one snapshot. A job that starts at once needs no forecast and no changes."""
    snapshot, policy = _with_it(spec, username), situation.policy()
    waits = [wait for wait in plan(snapshot, policy).waits if wait.job_id == _ASKED]
    if not waits:
        return Outlook(why="", position=0, starts="in the next round", changes=())
    rounds = _JOBS_PLAYED // (len(snapshot.pending) + len(snapshot.running))
    forecasts = forecast(
        snapshot, policy, percent_used=workload.percent_of_limits_used(), until=_ASKED,
        most_rounds=max(_LEAST_ROUNDS, min(rounds, _MOST_ROUNDS)),
    )  # fmt: skip
    starts = [
        queries.in_words(found.early_ms, found.late_ms, snapshot.now_ms)
        for found in forecasts
        if found.job_id == _ASKED
    ]
    return Outlook(
        why=waits[0].sentence,
        position=int(dict(waits[0].numbers)["position"]),
        starts=starts[0] if starts else "",
        changes=tuple(change.sentence for change in changes(snapshot, policy, _ASKED)),
    )


def dry_run(actor: Actor, mapping: Mapping[str, Any]) -> dict[str, Any]:
    spec = allowed(actor, parse(mapping))
    refused = refusal(spec, job_queries.queued_gpus(spec.team, spec.gpu_type))
    expected = None if refused else outlook(spec, actor.username)
    if expected is None or not expected.why:
        outcome = "refused" if refused else "starts"
        return {"outcome": outcome, "why": refused, "position": None, "should_start": "", "changes": []}
    return {
        "outcome": "waits",
        "why": expected.why,
        "position": expected.position,
        "should_start": expected.starts,
        "changes": list(expected.changes),
    }


def _with_it(spec: JobSpec, username: str) -> Snapshot:
    now = now_ms()
    snapshot = situation.load(now)
    asked = workload.as_submitted(spec, _ASKED, username, now)
    return replace(snapshot, pending=(*snapshot.pending, asked))


def allowed(actor: Actor, spec: JobSpec) -> JobSpec:
    """Check the submission like a real one, except its quota. Raises the same errors."""
    job_services.check_permissions(actor, spec)
    job_services.check_references(spec)
    return spec


def refusal(spec: JobSpec, queued: int) -> str:
    """The sentence of the quota, or "" if it would admit the job."""
    decision = quotas.would_admit(spec.team, spec.gpu_type, spec.num_gpus, queued)
    return decision.sentence if isinstance(decision, Refused) else ""
