"""The fields of a job, each described once: parser, JSON, form, REST schema and reference are made from it."""

from __future__ import annotations

from dataclasses import dataclass

from platform_core.jobs import constraints as placement
from platform_core.jobs import field_readers as readers
from platform_core.jobs.checkpoint_policy import CheckpointPolicy
from platform_core.jobs.code_source import GitSource
from platform_core.jobs.constraints import SPOT, Constraints
from platform_core.jobs.corruption_check import CorruptionCheck
from platform_core.jobs.cut_off import WhenCutOff
from platform_core.jobs.field_readers import Scalar
from platform_core.jobs.fields import Group, described, nested
from platform_core.jobs.hangs import OnHang
from platform_core.jobs.kind import JobKind
from platform_core.jobs.kinds import (
    choice,
    command,
    line,
    pairs,
    scaled,
    size,
    slug,
    truth,
    whole,
    words,
)
from platform_core.jobs.launching import Strategy
from platform_core.jobs.parallel import Parallel
from platform_core.jobs.retention_policy import RetentionPolicy
from platform_core.jobs.roles import Role, roles
from platform_core.jobs.transformer import Transformer
from platform_core.jobs.urgency import DEFAULT_PRIORITY, LEAST_URGENT, MOST_URGENT, PRIORITIES
from platform_core.units import HOUR_MS

MAX_GPUS = 10_000
MAX_HOURS = 720
MAX_RESTARTS, MOST_RESTARTS, MOST_SPARES = 3, 100, 16


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """Made by `parse`, which refuses bad values and combinations, all of them at once."""

    name: str = described(
        line(120, required="give the job a name of 1 to 120 characters"),
        "Name",
        "Shown in lists and charts.",
        Group.BASICS,
        example="bytelm-lr-3e-4",
    )
    team: str = described(
        slug(60, "the team's short name, such as vision", required="name the team that runs the job"),
        "Team",
        "Whose quota, secrets and datasets it uses.",
        Group.BASICS,
    )
    code: str = described(
        line(40, pattern=r"man-[0-9a-z]+", words="the id of an uploaded code bundle, man-…"),
        "Code",
        "The files in whose folder the command starts, uploaded from this page or by `trainmaster submit`.",
        Group.BASICS,
        default="",
        example="man-…",
    )
    git: GitSource = nested(GitSource, Group.CODE)  # noqa: RUF009
    command: tuple[str, ...] = described(
        command(),
        "Command",
        "The script and its arguments, or any program. Each rank runs it.",
        Group.BASICS,
        example="python train.py --steps 400",
    )
    gpu_type: str = described(
        slug(
            60, "a type's short name, such as cpu", required="name a type of the cluster, such as a100-80gb"
        ),
        "GPU type",
        "A type of the cluster; cpu takes CPU slots instead of GPUs.",
        Group.BASICS,
        example="a100-80gb",
    )
    num_gpus: int = described(
        whole(1, MAX_GPUS),
        "GPUs",
        "It starts when all of them are free at once, on one node or on several.",
        Group.BASICS,
        default=1,
    )

    min_gpus: int = described(
        whole(1, MAX_GPUS), "Minimum GPUs",
        "It may start with this many, and a preemptible job is also resized later.", Group.RESOURCES,
        like="num_gpus",
    )  # fmt: skip
    strategy: Strategy = described(  # noqa: RUF009
        choice(Strategy), "Strategy",
        "How the processes of the script are started; see docs/how-to/use-your-framework.md.", Group.RESOURCES,
        default=Strategy.TORCHRUN,
    )  # fmt: skip
    roles: tuple[Role, ...] = described(
        roles(), "Roles", "Groups of processes, one for each GPU, with commands of their own where they need them.",
        Group.RESOURCES, default=(), example="ps=1 python server.py",
    )  # fmt: skip
    parallel: Parallel = nested(Parallel, Group.LAYOUT)  # noqa: RUF009
    transformer: Transformer = nested(Transformer, Group.SHAPE)  # noqa: RUF009
    cpus_per_gpu: int = described(
        whole(0, 256), "CPUs per GPU", "CPU cores for each GPU; 0: a GPU's share of its node.", Group.RESOURCES,
        default=0,
    )  # fmt: skip
    memory_per_gpu_bytes: int = described(
        size(), "Memory per GPU", "Main memory for each GPU, with a unit; 0: a GPU's share of its node.",
        Group.RESOURCES, default=0, example="64GiB", name="memory_per_gpu",
    )  # fmt: skip
    max_runtime_ms: int = described(
        scaled(HOUR_MS, MAX_HOURS, positive=True), "Time limit (h)", "An attempt is stopped after it.",
        Group.RESOURCES, default=24 * HOUR_MS, name="max_runtime_hours",
    )  # fmt: skip
    container_image: str = described(
        line(300, pattern=r"[^\s-]\S*", words="an image name without spaces, such as registry.example/train:1.2"),
        "Container image", "Runs the command in a container; without an image it is a process of the node.",
        Group.RESOURCES, default="", example="registry.example/train:1.2",
    )  # fmt: skip

    kind: JobKind = described(  # noqa: RUF009
        choice(JobKind), "Kind", "batch: it trains nothing. service: it never ends, and starts again after a failure.",
        Group.SCHEDULING, default=JobKind.TRAINING,
    )  # fmt: skip
    priority: int = described(
        whole(MOST_URGENT, LEAST_URGENT, names=PRIORITIES),
        "Priority",
        "0 goes first, 100 last.",
        Group.SCHEDULING,
        default=DEFAULT_PRIORITY,
    )
    preemptible: bool = described(
        truth(),
        "Preemptible",
        "It may be stopped for another job and resumed later, and may use spot nodes.",
        Group.SCHEDULING,
        default=False,
    )
    max_restarts: int = described(
        whole(0, MOST_RESTARTS),
        "Maximum restarts",
        "After failures of the script, without a newer checkpoint between.",
        Group.SCHEDULING,
        default=MAX_RESTARTS,
    )

    on_hang: OnHang = described(  # noqa: RUF009
        choice(OnHang),
        "When it hangs",
        "restart: it goes on from its last checkpoint. hold: it keeps its slots until a person has looked.",
        Group.SCHEDULING,
        default=OnHang.RESTART,
    )
    when_cut_off: WhenCutOff = described(  # noqa: RUF009
        choice(WhenCutOff),
        "When a node is cut off",
        "stop: it ends there, then starts elsewhere. continue: it goes on there. overlap: both, so it may run twice.",
        Group.SCHEDULING,
        default=WhenCutOff.STOP,
    )

    spares: int = described(
        whole(0, MOST_SPARES), "Spare nodes",
        "Kept ready with its files, for when a node is lost; held within the team's guarantee.",
        Group.SCHEDULING, default=0,
    )  # fmt: skip
    corruption_check: CorruptionCheck = nested(CorruptionCheck, Group.SCHEDULING)  # noqa: RUF009

    checkpoint: CheckpointPolicy = nested(CheckpointPolicy, Group.CHECKPOINTS)  # noqa: RUF009
    retention: RetentionPolicy = nested(RetentionPolicy, Group.CHECKPOINTS)  # noqa: RUF009
    resume_from: str = described(
        line(40, pattern=r"ckpt-[0-9a-z]+", words="the id of a checkpoint, ckpt-…"),
        "Resume from",
        "A checkpoint of the team; without one it starts at step 0.",
        Group.CHECKPOINTS,
        default="",
    )

    experiment: str = described(
        line(120), "Experiment", "Its runs are compared with each other; a new name makes a new experiment.",
        Group.EXPERIMENT, default="", example="bytelm",
    )  # fmt: skip
    project: str = described(
        line(120), "Project", "Shown beside the name; lists can be searched for it.",
        Group.EXPERIMENT, default="",
    )  # fmt: skip
    hyperparameters: tuple[tuple[str, Scalar], ...] = described(
        pairs(
            readers.hyperparameters,
            readers.MAX_PAIRS,
            {"oneOf": [{"type": "string"}, {"type": "number"}, {"type": "boolean"}]},
        ),
        "Hyperparameters",
        "The script reads them with `trainmaster.hyperparameters()`; compared runs show those that differ.",
        Group.EXPERIMENT,
        default=(),
        example="lr=0.0006",
    )
    seed: int | None = described(
        whole(0, 2**63 - 1, optional=True), "Seed", "For the random numbers of the script.", Group.EXPERIMENT
    )
    tags: tuple[str, ...] = described(
        words(readers.tags, readers.MAX_TAGS), "Tags", "Words to find the run by.", Group.EXPERIMENT,
        default=(), example="baseline",
    )  # fmt: skip

    dataset: str = described(
        line(200, pattern=r"\S+", words="the id of a dataset snapshot"),
        "Dataset", "A snapshot of the team; it is on the node before the command starts.",
        Group.DATA, default="",
    )  # fmt: skip
    mount_dataset: bool = described(
        truth(), "Read the dataset where it lies",
        "Its files are linked, not copied; each node has the shared folder that they lie in.",
        Group.DATA, default=False,
    )  # fmt: skip
    stream_dataset: bool = described(
        truth(), "Start with the first shards of the dataset",
        "The loader names the shards it needs next; they come just ahead of use, on a bounded part of the disk.",
        Group.DATA, default=False,
    )  # fmt: skip
    model: str = described(
        line(
            140, pattern=r"\S+:[0-9]+", words="the name and the version of a model of the team, such as mlp:3"
        ),
        "Model", "A version of a model of the team; its files are on the node before the command starts.",
        Group.DATA, default="", example="mlp:3",
    )  # fmt: skip
    purpose: str = described(
        slug(40, "one word, such as train or eval"),
        "Purpose",
        "What the dataset is used for; it must be approved for that.",
        Group.DATA,
        default="",
        example="train",
    )

    serving_target: str = described(
        slug(60, "the name of a serving target of the team, such as edge"),
        "Serving target",
        "The script reads what it asks with `trainmaster.serving_constraints()`.",
        Group.DATA,
        default="",
        example="edge",
    )

    environment: tuple[tuple[str, str], ...] = described(
        pairs(readers.environment, readers.MAX_PAIRS, {"type": "string"}),
        "Environment",
        "Variables of the process; the team sees their values. Secrets are for those it should not.",
        Group.ENVIRONMENT,
        default=(),
        example="NCCL_DEBUG=INFO",
    )
    secrets: tuple[str, ...] = described(
        words(readers.secrets, readers.MAX_PAIRS),
        "Secrets",
        "Names of the team's secrets; only the process gets their values, as variables.",
        Group.ENVIRONMENT,
        default=(),
        example="HF_TOKEN",
    )

    node_labels: tuple[tuple[str, str], ...] = described(
        pairs(placement.labels, placement.MAX_NAMES, {"type": "string"}),
        "Node labels",
        "A node must have all of them.",
        Group.NODES,
        default=(),
        example="nvlink=yes",
    )
    tolerations: tuple[str, ...] = described(
        words(placement.tolerations, placement.MAX_NAMES),
        "Tolerated taints",
        "Taints that do not keep it off a node.",
        Group.NODES,
        default=(),
        example="lab",
    )
    max_racks: int = described(whole(0, 1_000), "Maximum racks", "0: any number.", Group.NODES, default=0)
    excluded_nodes: tuple[str, ...] = described(
        words(placement.excluded_nodes, placement.MAX_NAMES),
        "Excluded nodes",
        "Hostnames or ids of nodes that it never uses.",
        Group.NODES,
        default=(),
        example="node-7",
    )

    @property
    def constraints(self) -> Constraints:
        """As the scheduler takes them: a preemptible job may go to spot nodes."""
        tolerations = tuple(sorted({*self.tolerations, SPOT})) if self.preemptible else self.tolerations
        return Constraints(self.node_labels, tolerations, self.max_racks, self.excluded_nodes)
