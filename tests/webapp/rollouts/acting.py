"""What the agents would do in a rollout, played by hand; and versions to bring to them."""

from dataclasses import replace

from platform_core.distribution.content.manifest import ManifestBuilder
from platform_core.node.observed import ActivationObserved, ActivationState, DeploymentObserved, TransferState
from platform_core.node.wanted import ActivationWanted
from tests.webapp.orders import activations_on
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.artifacts import services as artifacts
from webapp.deployments import services
from webapp.deployments.models import Deployment
from webapp.nodes.models import Node
from webapp.registry import services as registry
from webapp.registry.models import ModelVersion
from webapp.rollouts import services as rollouts
from webapp.rollouts.models import Rollout
from webapp.rollouts.values import RolloutWish

SIZE = 1 << 20
CHECKED = RolloutWish(canary="1", hold_seconds=None, health_check="check-model", hook="reload")
WATCHED = RolloutWish(
    canary="1", hold_seconds=600, health_check="check-model", check_every_seconds=20, roll_back_after=2
)


def new_version(owner: User, seed: int) -> ModelVersion:
    builder = ManifestBuilder("model", chunk_size=SIZE, piece_size=SIZE)
    builder.feed("weights.bin", bytes([seed]) * SIZE)
    manifest = artifacts.register(builder.finish(), "vision", "file:///somewhere")
    return registry.register(actor_of(owner), "vision", "bytelm", manifest=manifest.id)


class Agents:
    """What the agents would do: hold what was brought, switch as told, answer as told."""

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes
        self.links: dict[str, ActivationObserved] = {}
        self.health = 0
        self.hook: dict[str, int] = {}

    def hold(self, row: Deployment, *names: str) -> None:
        for node in self._named(names):
            services.report(
                node.id,
                DeploymentObserved(
                    row.id, TransferState.COMPLETE, SIZE, SIZE, b"\x01", 0, 0, "store", "", "", 0
                ),
            )

    def lose(self, row: Deployment, name: str, error: str) -> None:
        (node,) = self._named((name,))
        said = DeploymentObserved(row.id, TransferState.FAILED, 0, SIZE, b"", 0, 0, "", "disk_full", error, 0)
        services.report(node.id, said)

    def act(self, *names: str) -> None:
        """One round: each does what is wanted of it, and tells."""
        for node in self._named(names):
            wanted = activations_on(node.id)
            if not wanted:
                self.links.pop(node.id, None)
            for order in wanted:
                self.links[node.id] = self._after(node, order)
            rollouts.observe({node.id: [self.links[node.id]] if node.id in self.links else []})

    def _after(self, node: Node, order: ActivationWanted) -> ActivationObserved:
        code = self.hook.get(node.hostname, 0)
        seen = ActivationObserved(
            order.model, order.version, order.deployment_id, order.revision,
            ActivationState.FAILED if code else ActivationState.ACTIVE, code, "no such service" if code else "",
        )  # fmt: skip
        if order.round and not code:
            seen = replace(
                seen, round=order.round, check_exit_code=self.health, check_output="a\nperplexity 9"
            )
        return seen

    def _named(self, names: tuple[str, ...]) -> list[Node]:
        return [node for node in self.nodes if not names or node.hostname in names]

    def active(self) -> dict[str, str]:
        """hostname → version that its link points to."""
        return {node.hostname: self.links[node.id].version for node in self.nodes if node.id in self.links}


def state(row: Deployment) -> str:
    return Rollout.objects.get(deployment=row).state


def rounds(agents: Agents, count: int = 3) -> None:
    for _ in range(count):
        agents.act()
