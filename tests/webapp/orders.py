"""What the gateway would send one node, and a round of both coordinators."""

from platform_core.node.wanted import ActivationWanted, DeploymentWanted
from webapp.deployments import coordination as deployment_coordination
from webapp.deployments import queries as deployments
from webapp.rollouts import coordination as rollout_coordination
from webapp.rollouts import queries as rollouts


def wanted_on(node_id: str) -> list[DeploymentWanted]:
    return deployments.wanted_on([node_id], rollouts.versions_in_use([node_id]))[node_id]


def activations_on(node_id: str) -> list[ActivationWanted]:
    return rollouts.wanted_on([node_id])[node_id]


def coordinate() -> None:
    deployment_coordination.coordinate()
    rollout_coordination.coordinate()
