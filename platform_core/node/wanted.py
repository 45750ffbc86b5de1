"""The wanted state of one node. Secrets stay out of every repr."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from platform_core.distribution.content.manifest import Manifest
from platform_core.distribution.deployments.sharing import USUAL, Share
from platform_core.jobs.checkpoint_policy import CheckpointPolicy
from platform_core.jobs.corruption_check import CorruptionCheck
from platform_core.jobs.cut_off import WhenCutOff
from platform_core.jobs.parallel import NONE, Parallel
from platform_core.jobs.roles import Role

NO_CHECK = CorruptionCheck()
Pairs = tuple[tuple[str, str], ...]  # ordered by name


class WantedAction(StrEnum):
    RUN = "run"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class ArtifactReference:
    """Files by the id of their manifest, and the store folder in which they lie.

    `etags`: what the store called each file when it was registered, in the manifest's order; empty: not known.
    """

    manifest_id: str
    source_url: str
    etags: tuple[str, ...] = ()

    def etags_of(self, manifest: Manifest) -> dict[str, str]:
        """By path."""
        return dict(zip((entry.path for entry in manifest.files), self.etags, strict=False))


@dataclass(frozen=True, slots=True)
class Launch:
    """Everything one node needs to run its part of an attempt."""

    job_id: str
    job_name: str
    team: str  # slug
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
    cpus_per_gpu: int
    memory_per_gpu_bytes: int
    checkpoint: CheckpointPolicy
    hyperparameters_json: str
    checkpoint_upload_url: str  # store folder that takes this job's checkpoints
    code: ArtifactReference | None = None
    dataset: ArtifactReference | None = None
    resume: ArtifactReference | None = None
    model: ArtifactReference | None = None
    seed: int | None = None
    roles: tuple[Role, ...] = ()
    parallel: Parallel = NONE
    corruption_check: CorruptionCheck = NO_CHECK
    delivery: DeploymentWanted | None = field(default=None, repr=False)  # how the dataset comes to this node
    mount_dataset: bool = False  # it does not: it is read where it lies
    stream_dataset: bool = False  # the job starts with its first files; the others come ahead of use
    traceparent: str = ""  # of this attempt, as W3C Trace Context has it
    when_cut_off: WhenCutOff = WhenCutOff.STOP


@dataclass(frozen=True, slots=True)
class ProfileOrder:
    """Asks the script of a running attempt to record its next steps."""

    number: int  # grows with each order; one that was followed is not followed again
    steps: int
    ranks: tuple[int, ...]
    kind: str = "trace"  # of torch's profiler; or memory, or flame: where the threads are


@dataclass(frozen=True, slots=True)
class AttemptWanted:
    attempt_id: str
    action: WantedAction
    grace_seconds: int  # between SIGTERM and SIGKILL
    launch: Launch | None = None
    save_order: int = 0  # grows with each order to save a checkpoint now
    checkpoint_interval_ms: int = 0  # between saves; 0: the interval of `launch.checkpoint`
    stop_deadline_ms: int = 0  # when the grace of a stop ends, in ms since 1970; 0: not known
    stop_reason: str = ""
    stacks_order: int = 0  # a greater one asks for stack dumps of all ranks
    profiles: tuple[ProfileOrder, ...] = ()  # the last orders, which a script follows one after another


@dataclass(frozen=True, slots=True)
class Peer:
    """A node that takes part in the same deployment."""

    node_id: str
    address: str  # host:port of its ChunkTransfer


@dataclass(frozen=True, slots=True)
class DeploymentWanted:
    """A model version that this node shall hold."""

    deployment_id: str
    model: str  # "team/name"
    version: str
    artifact: ArtifactReference
    peers: tuple[Peer, ...]  # all nodes named in `lanes`
    transfer_token: str = field(default="", repr=False)  # which the workers of one deployment show each other
    lanes: tuple[tuple[str, ...], ...] = ()  # sources of each; none: one lane, the peers, then the store
    slower: frozenset[int] = frozenset()  # lanes whose first source is quicker than this node
    retry: int = 0  # grows when somebody asks to try again
    pinned: bool = False  # never evicted
    preheat: bool = False  # evicted first: nobody needs it yet
    share: Share = USUAL  # of this node's link
    # Of the manifest's id by the platform's authority; another each time.
    signature: bytes = field(default=b"", repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class ActivationWanted:
    """The version of a model that shall be in use on this node; the commands are names in the folder of hooks."""

    model: str
    version: str
    deployment_id: str
    revision: int  # a greater one is another try
    hook: str = ""
    health_check: str = ""
    round: int = 0  # of the health check; 0: not asked
    command_seconds: int = 60
    previous_version: str = ""  # which a rollback would make active


@dataclass(frozen=True, slots=True)
class MendWanted:
    """Files that the store has lost and this node holds: it writes them back to where they lay."""

    artifact: ArtifactReference
    paths: tuple[str, ...]
    order: int  # grows with each try


@dataclass(frozen=True, slots=True)
class Wanted:
    """The whole wanted state of a node: what is not in it is not wanted."""

    revision: int
    attempts: tuple[AttemptWanted, ...] = ()
    deployments: tuple[DeploymentWanted, ...] = ()
    activations: tuple[ActivationWanted, ...] = ()
    mends: tuple[MendWanted, ...] = ()
    hashing: tuple[str, ...] = ()  # registrations whose files it hashes while no attempt runs on it
