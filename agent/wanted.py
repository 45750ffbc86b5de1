"""What the server wants of this node, as frozen values. Secrets stay out of every repr."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from platform_core.distribution.content.manifest import Manifest
from platform_core.distribution.deployments.sharing import USUAL, Share

Pairs = tuple[tuple[str, str], ...]


class WantedAction(StrEnum):
    RUN = "run"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Artifact:
    """Bytes by the id of their manifest, and the store folder under which its files lie."""

    manifest_id: str
    source_url: str
    etags: tuple[str, ...] = ()  # what the store called each file when it was registered; none: not known

    def etags_of(self, manifest: Manifest) -> dict[str, str]:
        """By path."""
        return dict(zip((entry.path for entry in manifest.files), self.etags, strict=False))


@dataclass(frozen=True, slots=True)
class Launch:
    """Everything one node needs to run its part of an attempt."""

    job_id: str
    job_name: str
    attempt: int
    command: tuple[str, ...]
    strategy: str
    container_image: str
    environment: Pairs
    secrets: Pairs = field(repr=False)
    nodes: int
    node_rank: int
    slots: tuple[int, ...]
    master_address: str
    master_port: int
    cpus_per_slot: int
    memory_per_slot_bytes: int
    code: Artifact | None
    dataset: Artifact | None
    resume: Artifact | None
    checkpoint_interval_steps: int
    checkpoint_interval_seconds: int
    checkpoint_keep_last: int
    checkpoint_path: str
    hyperparameters_json: str
    seed: int | None
    checkpoint_upload_url: str
    team: str = ""  # slug


@dataclass(frozen=True, slots=True)
class AttemptWanted:
    attempt_id: str
    action: WantedAction
    grace_seconds: int
    launch: Launch | None


@dataclass(frozen=True, slots=True)
class Peer:
    node_id: str
    address: str  # host:port of its ChunkTransfer


@dataclass(frozen=True, slots=True)
class DeploymentWanted:
    deployment_id: str
    model: str
    version: str
    artifact: Artifact
    peers: tuple[Peer, ...]  # everybody named in `lanes`
    transfer_token: str = field(default="", repr=False)  # what the workers of one deployment show each other
    lanes: tuple[tuple[str, ...], ...] = ()  # sources of each; none: one lane, the peers, then the store
    slower: frozenset[int] = frozenset()  # lanes whose first source is quicker than this node
    retry: int = 0  # grows when somebody asks to try again
    pinned: bool = False  # never given up for room
    preheat: bool = False  # given up first: nobody needs it yet
    share: Share = USUAL  # of this node's link
    # Of the manifest's id, another each time.
    signature: bytes = field(default=b"", repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class ActivationWanted:
    """The version of a model that shall be in use here; the commands are names in the folder of hooks."""

    model: str
    version: str
    deployment_id: str
    revision: int  # a greater one is another try
    hook: str = ""
    health_check: str = ""
    round: int = 0  # of the health check, 0 is not asked
    command_seconds: int = 60
    previous_version: str = ""  # what a rollback would make active


@dataclass(frozen=True, slots=True)
class Wanted:
    """The node's whole wanted state: what is not in it is not wanted."""

    revision: int
    attempts: tuple[AttemptWanted, ...]
    deployments: tuple[DeploymentWanted, ...]
    activations: tuple[ActivationWanted, ...] = ()
