"""The platform issues, the agents believe: mutual TLS between nodes, and manifests that the platform has signed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from agent.manifests import Manifests
from agent.transfer.orders.deployments import Deployments, Trust
from agent.transfer.peers.credentials import NodeCredentials
from platform_core.errors import TrainmasterError
from platform_core.node.observed import DeploymentObserved, TransferState
from platform_core.node.wanted import ArtifactReference, DeploymentWanted, Peer
from tests.agent.transfer.rig import QUICK, Library, manifest_of
from webapp.nodes.certificates import NodeAuthority

AUTHORITY = NodeAuthority("a secret of the platform")
CONTENT = bytes(range(256)) * 4096
MANIFEST = manifest_of({"weights.bin": CONTENT})


class Node:
    def __init__(self, name: str, data: Path, enrolled: bool = True) -> None:
        self.name, self.data = name, data
        self.credentials = NodeCredentials(data)
        if enrolled:
            self.enrol(name)
        self._news = asyncio.Event()
        self.library = Library(MANIFEST)
        trust = Trust(self.credentials.security, self.credentials.is_signed)
        self.deployments = Deployments(
            data, Manifests(data, self.library, patience=60), self._changed, trust, trying=QUICK
        )

    def enrol(self, name: str, authority: NodeAuthority = AUTHORITY) -> None:
        certificate = authority.certificate_for(name, self.credentials.request())
        self.credentials.accept(certificate, authority.pem)

    async def start(self) -> None:
        self.port = await self.deployments.start("127.0.0.1", 0, self.credentials.server())

    async def until(self, condition: Callable[[DeploymentObserved], bool]) -> DeploymentObserved:
        async with asyncio.timeout(30):
            while not condition(self.deployments.observed()[0]):
                self._news.clear()
                await self._news.wait()
        return self.deployments.observed()[0]

    def _changed(self) -> None:
        self._news.set()


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[list[Node]]:
    two = [Node(f"node-{number}", tmp_path / f"node-{number}") for number in range(2)]
    for node in two:
        await node.start()
    yield two
    for node in two:
        await node.deployments.close()


def order(tmp_path: Path, *peers: Peer, signature: bytes | None = None) -> DeploymentWanted:
    store = tmp_path / "store"
    store.mkdir(exist_ok=True)
    (store / "weights.bin").write_bytes(CONTENT)
    signed = AUTHORITY.sign(MANIFEST.id) if signature is None else signature
    artifact = ArtifactReference(MANIFEST.id, store.as_uri())
    # Followers have no store to fall back to: what they get, they get from their peers.
    lanes = ((*(peer.node_id for peer in peers),),) if peers else ()
    return DeploymentWanted("dep-1", "vision/small", "1", artifact, peers, "token", lanes, signature=signed)


def ended(seen: DeploymentObserved) -> bool:
    return seen.state in (TransferState.COMPLETE, TransferState.FAILED)


def complete(seen: DeploymentObserved) -> bool:
    return seen.state is TransferState.COMPLETE


async def test_enrolled_nodes_pass_a_signed_model_on(nodes: list[Node], tmp_path: Path) -> None:
    nodes[0].deployments.receive(order(tmp_path))
    await nodes[0].until(complete)
    (tmp_path / "store" / "weights.bin").unlink()
    wanted = order(tmp_path, Peer("node-0", f"127.0.0.1:{nodes[0].port}"))
    (tmp_path / "store" / "weights.bin").unlink()
    nodes[1].deployments.receive(wanted)
    await nodes[1].until(complete)
    assert (nodes[1].data / "models/vision/small/1/weights.bin").read_bytes() == CONTENT
    assert nodes[1].library.asked == []  # the manifest came from the neighbour too


async def test_a_node_at_the_address_of_another_is_not_believed(nodes: list[Node], tmp_path: Path) -> None:
    nodes[0].deployments.receive(order(tmp_path))
    await nodes[0].until(complete)
    wanted = order(tmp_path, Peer("node-7", f"127.0.0.1:{nodes[0].port}"))
    (tmp_path / "store" / "weights.bin").unlink()
    nodes[1].deployments.receive(wanted)
    seen = await nodes[1].until(lambda seen: ended(seen) or seen.retries > 0)
    assert seen.bytes_done == 0


async def test_who_has_no_certificate_of_the_platform_gets_nothing(nodes: list[Node], tmp_path: Path) -> None:
    nodes[0].deployments.receive(order(tmp_path))
    await nodes[0].until(complete)
    stranger = Node("node-2", tmp_path / "node-2", enrolled=False)
    stranger.deployments._trust = Trust(stranger.credentials.security)
    await stranger.start()
    wanted = order(tmp_path, Peer("node-0", f"127.0.0.1:{nodes[0].port}"))
    (tmp_path / "store" / "weights.bin").unlink()
    stranger.deployments.receive(wanted)
    seen = await stranger.until(lambda seen: ended(seen) or seen.retries > 0)
    assert seen.bytes_done == 0
    await stranger.deployments.close()


async def test_a_certificate_that_comes_later_is_taken_up_without_a_restart(
    nodes: list[Node], tmp_path: Path
) -> None:
    late = Node("node-3", tmp_path / "node-3", enrolled=False)
    await late.start()
    late.enrol("node-3")
    late.deployments.receive(order(tmp_path))
    await late.until(complete)
    wanted = order(tmp_path, Peer("node-3", f"127.0.0.1:{late.port}"))
    (tmp_path / "store" / "weights.bin").unlink()
    nodes[1].deployments.receive(wanted)
    await nodes[1].until(complete)
    await late.deployments.close()


async def test_a_manifest_that_the_platform_has_not_signed_is_refused(
    nodes: list[Node], tmp_path: Path
) -> None:
    nodes[0].deployments.receive(order(tmp_path, signature=AUTHORITY.sign("man-other")))
    seen = await nodes[0].until(ended)
    assert (seen.state, seen.error_code) == (TransferState.FAILED, "manifest_invalid")
    assert "not signed by the platform" in seen.error


async def test_a_restarted_node_keeps_its_key_and_its_certificate(tmp_path: Path) -> None:
    first = Node("node-0", tmp_path)
    again = NodeCredentials(tmp_path)
    assert again.is_signed("man-1", AUTHORITY.sign("man-1"))
    assert first.credentials._certificate == again._certificate
    assert (tmp_path / "peers" / "node.key").stat().st_mode & 0o077 == 0


async def test_what_a_node_shows_changes_only_when_it_must(tmp_path: Path) -> None:
    """gRPC frees what was shown before while handshakes still read it: each change is a risk to the process."""
    node = Node("node-0", tmp_path)
    node.credentials.server()
    changed = node.credentials._changed
    assert changed() is None
    node.enrol("node-0")
    assert changed() is None  # a session like the one before
    node.enrol("node-1")
    assert changed() is not None
    assert changed() is None
    node.enrol("node-1", NodeAuthority("another secret"))
    assert changed() is not None
    assert changed() is None


async def test_a_certificate_is_renewed_when_half_its_time_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node("node-0", tmp_path, enrolled=False)
    monkeypatch.setattr("webapp.nodes.certificates.DAYS", 198)
    node.enrol("node-0")
    node.credentials.server()
    monkeypatch.undo()
    node.enrol("node-0")
    assert node.credentials._changed() is not None


def test_what_is_no_certificate_request_is_refused() -> None:
    with pytest.raises(TrainmasterError, match="certificate request"):
        AUTHORITY.certificate_for("node-1", b"nonsense")
