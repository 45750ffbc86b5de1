import hashlib
import hmac
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db.models import Count, Q, QuerySet, Sum
from prometheus_client.metrics_core import Metric

from platform_core.distribution.deployments.deployment import DeploymentState, WorkerState
from platform_core.distribution.deployments.progress import Progress
from platform_core.distribution.deployments.sharing import Share
from platform_core.distribution.planning.forest import STORE
from platform_core.distribution.planning.observed_rates import LEAST_BYTES, Passed, Rates, observed
from platform_core.errors import TrainmasterError
from platform_core.node.wanted import ArtifactReference, DeploymentWanted, Peer
from webapp.accounts.permissions import Actor, may, require
from webapp.accounts.queries import actor_of
from webapp.artifacts import queries as artifacts
from webapp.deployments.delivery.keeping import kept
from webapp.deployments.delivery.sharing import share_of
from webapp.deployments.metrics import families
from webapp.deployments.models import Deployment, Worker
from webapp.nodes import queries as clusters

LOOKED_BACK = 20  # deployments


def visible(teams: Iterable[str] | None, model: str = "") -> QuerySet[Deployment]:
    """The newest first; of all models, or of this one (team/name)."""
    matching = Deployment.objects.select_related("model_version__model", "user", "rollout")
    if model:
        team, _, name = model.partition("/")
        matching = matching.filter(model_version__model__team=team, model_version__model__name=name)
    rows = matching.order_by("-created_ms", "-id")
    return rows if teams is None else rows.filter(team__in=list(teams))


def find(deployment_id: str) -> Deployment | None:
    rows = Deployment.objects.select_related("model_version__model", "model_version__manifest", "user")
    return rows.filter(id=deployment_id).first()


def seen_by(actor: Actor, deployment_id: str) -> Deployment:
    """Not found, for all they know, to those who may not see it."""
    row = find(deployment_id)
    if row is None:
        raise TrainmasterError("not_found", what=f"deployment {deployment_id}")
    require(actor, "deployment.view", row.team_id, what=f"deployment {deployment_id}")
    return row


def workers(deployment_id: str) -> list[Worker]:
    return list(Worker.objects.filter(deployment=deployment_id).select_related("node").order_by("position"))


def progress_of(row: Deployment) -> Progress:
    return progress_of_all([row.id])[row.id]


def progress_of_all(ids: Collection[str]) -> dict[str, Progress]:
    """As the core's `progress`, but the database counts: of a page of deployments to a thousand nodes each."""
    counts = Worker.objects.filter(deployment__in=ids).order_by().values("deployment")
    rows: Any = counts.annotate(
        workers=Count("id"), done=Sum("bytes_done"), total=Sum("bytes_total"), complete=_in_state(WorkerState.COMPLETE),
        failed=_in_state(WorkerState.FAILED), evicted=_in_state(WorkerState.EVICTED),
    )  # fmt: skip
    of_each = rows.values_list("deployment", "workers", "complete", "failed", "done", "total", "evicted")
    counted = {deployment_id: Progress(*map(int, numbers)) for deployment_id, *numbers in of_each}
    return {key: counted.get(key, Progress(0, 0, 0, 0, 0)) for key in ids}


def _in_state(state: WorkerState) -> Count:
    return Count("id", filter=Q(state=state))


def shown_state(row: Deployment, reached: Progress) -> str:
    """Complete, and on no node any more, is told apart from complete: evicted."""
    evicted = (
        row.state == DeploymentState.COMPLETE and reached.workers_evicted and not reached.workers_complete
    )
    return str(WorkerState.EVICTED) if evicted else row.state


def reason(row: Deployment, names: Progress) -> str:
    """Why it is not, or not everywhere any more, what it was asked for."""
    if row.reason or not names.workers_evicted:
        return row.reason
    given_up = Worker.objects.filter(deployment=row, state=WorkerState.EVICTED).order_by("position")
    first = given_up.values_list("node__hostname", "error").first()
    return f"{first[0]} gave it up: {first[1]}" if first else ""


def rate_in(row: Deployment) -> int:
    """Bytes per second that come into all of its nodes together."""
    receiving = Worker.objects.filter(deployment=row, state=WorkerState.RECEIVING)
    return int(receiving.aggregate(rate=Sum("rate_in"))["rate"] or 0)


def usual_rates(link: int) -> Rates:
    """Along the way from the store, over the last complete deployments without a cap; the link bounds them."""
    recent = Deployment.objects.filter(
        state=DeploymentState.COMPLETE, started_ms__isnull=False, finished_ms__isnull=False, rate_cap=0,
        model_version__manifest__isnull=False,
    ).order_by("-finished_ms")  # fmt: skip
    columns = ("model_version__manifest__total_bytes", "started_ms", "finished_ms")
    large = recent.filter(model_version__manifest__total_bytes__gte=LEAST_BYTES)[:LOOKED_BACK]
    small = recent.filter(model_version__manifest__total_bytes__lt=LEAST_BYTES)[:LOOKED_BACK]
    rows: Any = [*large.values_list(*columns), *small.values_list(*columns)]
    return observed([Passed(size, max(0, finished - started)) for size, started, finished in rows], link)


def wanted_on(
    node_ids: Collection[str], in_use: Mapping[str, Collection[str]] = {}
) -> dict[str, list[DeploymentWanted]]:
    """Returns by node what the deployments want of it; cancelled ones never want anything.

    `in_use`: by node the ids of the versions that it keeps because they are active, or would be after a rollback.
    """
    rows = (
        Worker.objects.filter(node__in=node_ids)
        .exclude(deployment__state=DeploymentState.CANCELLED)
        .select_related("deployment__model_version__model")
        .order_by("-deployment__created_ms", "-deployment_id")
        .defer("chunks_done")
    )
    brought: dict[str, list[Worker]] = {node: [] for node in node_ids}
    for row in rows:
        brought[row.node_id].append(row)
    wanted = {node: kept(newest_first, in_use.get(node, ())) for node, newest_first in brought.items()}
    every = [row for rows in wanted.values() for row in rows]
    orders = {row.deployment_id: row.deployment for row in every}
    registered = artifacts.references(
        each.model_version.manifest_id for each in orders.values() if each.model_version.manifest_id
    )
    given = _Given(
        {key: share_of(each) for key, each in orders.items()},
        clusters.transfer_addresses(
            {source for row in every for lane in row.lanes for source in lane if source != STORE}
        ),
        {key: _artifact(each, registered) for key, each in orders.items()},
    )
    return {
        node: [_wanted(row, given) for row in sorted(rows, key=lambda row: row.deployment_id)]
        for node, rows in wanted.items()
    }


@dataclass(frozen=True, slots=True)
class _Given:
    """What the orders of several nodes have in common."""

    shares: Mapping[str, Share]  # by deployment
    addresses: Mapping[str, str]  # by node
    artifacts: Mapping[str, ArtifactReference]  # by deployment


def _artifact(deployment: Deployment, registered: Mapping[str, ArtifactReference]) -> ArtifactReference:
    """Where a deployment reads: of the platform's stores where the files are now, for they move between them. Of
    another place than that of the registration no etags are known."""
    manifest_id = deployment.model_version.manifest_id or ""
    there = registered.get(manifest_id)
    if there is not None and (
        there.source_url == deployment.source_url or artifacts.is_in_store(deployment.source_url)
    ):
        return there
    return ArtifactReference(manifest_id, deployment.source_url)


def _wanted(row: Worker, given: _Given) -> DeploymentWanted:
    deployment = row.deployment
    version = deployment.model_version
    named = sorted({source for lane in row.lanes for source in lane if source != STORE})
    return DeploymentWanted(
        deployment_id=deployment.id,
        model=str(version.model),
        version=str(version.version),
        artifact=given.artifacts[deployment.id],
        peers=tuple(Peer(node, given.addresses[node]) for node in named if node in given.addresses),
        transfer_token=transfer_token(deployment.id),
        lanes=tuple(tuple(lane) for lane in row.lanes),
        slower=frozenset(row.slower),
        retry=row.retry,
        pinned=deployment.pinned,
        preheat=deployment.preheat,
        share=given.shares[deployment.id],
    )


def transfer_token(deployment_id: str) -> str:
    """What the workers of one deployment show each other; made again from the key, never stored."""
    return hmac.new(
        settings.SECRET_KEY.encode(), f"transfer:{deployment_id}".encode(), hashlib.sha256
    ).hexdigest()


def reading() -> list[tuple[str, int]]:
    """(manifest, when it began) of the deployments that are under way."""
    rows = Deployment.objects.exclude(state__in=["complete", "failed", "cancelled"])
    rows = rows.exclude(model_version__manifest=None).order_by("id")
    return list(rows.values_list("model_version__manifest", "created_ms"))


def active_count(teams: Iterable[str] | None) -> int:
    active = visible(teams).exclude(state__in=["complete", "failed", "cancelled"])
    return active.count()


def metrics(teams: Iterable[str] | None) -> tuple[Metric, ...]:
    """What distribution has done so far for these teams, for Prometheus."""
    return families(None if teams is None else list(teams))


def may_watch(user: Any, deployment_id: str) -> bool:
    team = Deployment.objects.filter(id=deployment_id).values_list("team_id", flat=True).first()
    return team is not None and may(actor_of(user), "deployment.view", team)


def bringing(*, versions: Iterable[str] = (), deployments: Iterable[str] = ()) -> list[Deployment]:
    """Deployments of these versions, and these, the newest first."""
    rows = Deployment.objects.filter(Q(model_version__in=list(versions)) | Q(id__in=list(deployments)))
    return list(rows.select_related("model_version__model", "user").order_by("-created_ms", "id"))
