"""How datasets come to the nodes of a gang: through the mesh of the model transfers, about one copy from the store."""

from functools import lru_cache

from platform_core.distribution.planning import mesh
from platform_core.distribution.planning.forest import STORE, NodePlan, node_plans
from platform_core.distribution.planning.routes import Place
from platform_core.node.wanted import ArtifactReference, DeploymentWanted, Peer
from webapp.deployments import queries as deployments
from webapp.nodes import queries as nodes
from webapp.nodes import services as node_services


def delivery(dataset: ArtifactReference, node: str, gang: tuple[str, ...]) -> DeploymentWanted:
    """The order for this node. It is named by the content: whoever uses it later on the same node finds it there."""
    order, model = order_of(dataset)
    plan = _plans(nodes.standing(gang))[node]
    named = sorted({source for lane in plan.lanes for source in lane if source != STORE})
    addresses = nodes.transfer_addresses(named) if named else {}
    return DeploymentWanted(
        deployment_id=order,
        model=model,
        version="1",
        artifact=dataset,
        peers=tuple(Peer(source, addresses[source]) for source in named if source in addresses),
        transfer_token=deployments.transfer_token(order),
        lanes=plan.lanes,
        slower=plan.slower,
        signature=node_services.node_authority().sign(dataset.manifest_id),
    )


def order_of(artifact: ArtifactReference) -> tuple[str, str]:
    """The id of the order for these files, and the name under which a node keeps them."""
    return f"data-{artifact.manifest_id}", f"_datasets/{artifact.manifest_id}"


@lru_cache(maxsize=64)  # of each gang every node asks
def _plans(places: tuple[Place, ...]) -> dict[str, NodePlan]:
    return {plan.node: plan for plan in node_plans(mesh.plan(places))}
