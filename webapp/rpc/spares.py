"""What spare nodes have ready: data, newest checkpoint and code of a gang, under the ids of their content."""

import logging
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

from platform_core.datasets.access import Use
from platform_core.errors import TrainmasterError
from platform_core.jobs import spec as specification
from platform_core.node.wanted import ArtifactReference, DeploymentWanted
from webapp.artifacts import queries as artifacts
from webapp.checkpoints import queries as checkpoints
from webapp.datasets import queries as datasets
from webapp.deployments import queries as deployments
from webapp.jobs.spares import SpareWanted, spares_on
from webapp.nodes import queries as nodes
from webapp.nodes import services as node_services
from webapp.rpc.deliveries import delivery, order_of

log = logging.getLogger(__name__)


def ready_on(node_ids: Collection[str]) -> dict[str, tuple[DeploymentWanted, ...]]:
    """By node; what cannot be named is left out: the gang will hear of it when it goes there. An agent of an earlier
    version gets none: it would report a model that nobody deployed."""
    spares = spares_on(node_ids)
    able = nodes.that_hold_ready(spares) if spares else frozenset()
    return {
        node: tuple({order.deployment_id: order for spare in its for order in _orders(node, spare)}.values())
        for node, its in spares.items()
        if node in able
    }


def _orders(node: str, spare: SpareWanted) -> Iterator[DeploymentWanted]:
    spec = specification.restore(spare.spec)
    use = Use(spare.team, spec.project, spec.purpose)
    copied = spec.dataset and not spec.mount_dataset and not spec.stream_dataset
    if copied and (dataset := _named(lambda: datasets.reference_for(spec.dataset, use))):
        yield replace(delivery(dataset, node, (*spare.gang, node)), preheat=True)
    if spare.checkpoint and (checkpoint := _named(lambda: checkpoints.reference(spare.checkpoint))):
        yield _from_the_store(checkpoint)
    if spec.code and (code := _named(lambda: artifacts.reference(spec.code))):
        yield _from_the_store(code)


def _named(find: Callable[[], ArtifactReference]) -> ArtifactReference | None:
    try:
        return find()
    except TrainmasterError as error:
        log.info("a spare node does without it: %s", error.sentence)
        return None


def _from_the_store(artifact: ArtifactReference) -> DeploymentWanted:
    order, model = order_of(artifact)
    return DeploymentWanted(
        deployment_id=order, model=model, version="1", artifact=artifact, peers=(), preheat=True,
        transfer_token=deployments.transfer_token(order),
        signature=node_services.node_authority().sign(artifact.manifest_id),
    )  # fmt: skip
