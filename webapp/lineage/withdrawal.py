"""What is stopped or taken back because of a recall. One refusal does not keep the others from it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import TYPE_CHECKING

from platform_core.distribution.deployments.deployment import TERMINAL
from platform_core.errors import TrainmasterError
from platform_core.lineage.graph import Kind
from platform_core.lineage.recalls import Version, instead
from platform_core.serving.canary import CanaryPolicy
from webapp.accounts.permissions import SYSTEM
from webapp.deployments import queries as deployments
from webapp.deployments import services as deployment_services
from webapp.jobs import queries as jobs
from webapp.jobs import services as job_services
from webapp.recalls import queries as recalls
from webapp.registry import queries as registry
from webapp.rollouts import queries as rollout_queries
from webapp.rollouts import services as rollouts
from webapp.serving import queries as serving
from webapp.serving import services as serving_services

if TYPE_CHECKING:
    from webapp.deployments.models import Deployment
    from webapp.serving.models import Endpoint

AT_ONCE = CanaryPolicy(
    share=10_000, watch_ms=0, min_requests=0
)  # all requests, as soon as a replica is ready


def cancel_jobs(job_ids: Iterable[str], cause: str) -> list[str]:
    """Of these, the jobs that have not ended. Returns a sentence for each."""
    return [
        _done(f"cancelled job {row.name}", partial(job_services.cancel, SYSTEM, row.id, cause))
        for row in jobs.unfinished(job_ids)
    ]


def withdraw(bad: Collection[str]) -> list[str]:
    """Deployments of these model versions are rolled back, endpoints go back to a version before them."""
    done = [sentence for row in deployments.bringing(versions=bad) for sentence in _deployment(row)]
    return done + [sentence for row in serving.serving(versions=bad) for sentence in _endpoint(row, bad)]


def still_serving(bad: Collection[str]) -> list[str]:
    return [f"endpoint {row.name} still answers with {row.stable}" for row in serving.serving(versions=bad)]


def _deployment(row: Deployment) -> list[str]:
    what = f"deployment {row.id} of {row.model_version}"
    if row.state not in TERMINAL:
        return [_done(f"cancelled {what}", partial(deployment_services.cancel, SYSTEM, row.id))]
    if not rollout_queries.is_in_use(row.id):
        return []
    return [_done(f"rolled back {what}", partial(rollouts.roll_back, SYSTEM, row.id))]


def _endpoint(row: Endpoint, bad: Collection[str]) -> list[str]:
    team, name = row.team_id, row.name
    done = []
    if row.canary_id in bad:
        back = partial(serving_services.roll_back, SYSTEM, team, name)
        done.append(_done(f"rolled back the canary of endpoint {name}", back))
    if row.stable_id not in bad:
        return done
    if row.canary_id is not None and row.canary_id not in bad:
        promote = partial(serving_services.promote, SYSTEM, team, name)
        return [_done(f"promoted the canary of endpoint {name}", promote)]
    known = registry.versions(row.stable.model)
    versions = [Version(one.id, one.version, one.state == "ready") for one in known]
    earlier = instead(row.stable.version, versions, recalls.whys(Kind.MODEL, [one.id for one in known]))
    if earlier is None:
        return [*done, f"endpoint {name} still answers with {row.stable}: no earlier version may be used"]
    change = f"endpoint {name} goes back from version {row.stable.version} to {earlier.number}"
    return [
        *done,
        _done(change, partial(serving_services.change_version, SYSTEM, team, name, earlier.number, AT_ONCE)),
    ]


def _done(sentence: str, act: Callable[[], object]) -> str:
    try:
        act()
    except TrainmasterError as refused:
        return f"could not be done ({sentence}): {refused}"
    return sentence
