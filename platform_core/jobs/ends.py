"""Why an attempt, or one node's part of it, ended. One reason from the agent to the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Literal

Budget = Literal["script", "infrastructure", ""]


class EndReason(StrEnum):
    SCRIPT_ERROR = "script_error"
    OUT_OF_MEMORY_HOST = "out_of_memory_host"
    OUT_OF_MEMORY_GPU = "out_of_memory_gpu"
    KILLED = "killed"
    NODE_LOST = "node_lost"
    GPU_FAILED = "gpu_failed"
    NETWORK = "network"
    LAUNCHER = "launcher"
    DISK_FULL = "disk_full"
    HANG = "hang"
    SILENT_CORRUPTION = "silent_corruption"
    DATA_REVIEW = "data_review"
    REFUSED = "refused"
    PREEMPTED = "preempted"
    SPOT_NOTICE = "spot_notice"
    MAINTENANCE = "maintenance"
    TIME_LIMIT = "time_limit"
    CANCELLED = "cancelled"
    STOPPED = "stopped"
    SUCCEEDED = "succeeded"


@dataclass(frozen=True, slots=True)
class End:
    """`counts` names the budget of restarts that a retry is taken from; "" is none."""

    label: str
    retried: bool
    counts: Budget
    remedy: str

    @property
    def in_sentence(self) -> str:
        return self.label if self.label[1].isupper() else self.label[0].lower() + self.label[1:]


ENDS: Mapping[EndReason, End] = MappingProxyType({
    EndReason.SCRIPT_ERROR: End(
        "Script error", True, "script",
        "Read the exception in the log of the named rank, correct the script and submit it again.",
    ),
    EndReason.OUT_OF_MEMORY_HOST: End(
        "Out of host memory", True, "script",
        "Raise memory_per_gpu, or use fewer data loader workers, less prefetching and smaller caches.",
    ),
    EndReason.OUT_OF_MEMORY_GPU: End(
        "Out of GPU memory", True, "script",
        "Use a smaller batch, activation checkpointing or more sharding, or ask for GPUs with more memory.",
    ),
    EndReason.KILLED: End(
        "Killed by a signal", True, "script",
        "SIGSEGV and SIGABRT come from native code: read the stack in the log. After SIGKILL, look in the node's "
        "kernel log for who sent it.",
    ),
    EndReason.NODE_LOST: End(
        "Node lost", True, "infrastructure",
        "Nothing to do: the job restarts without the node. An operator finds the node on the Nodes page.",
    ),
    EndReason.GPU_FAILED: End(
        "GPU failed", True, "infrastructure",
        "Nothing to do: the job restarts. An operator reads the error on the node's page and resets the GPU.",
    ),
    EndReason.NETWORK: End(
        "Network error", True, "infrastructure",
        "Nothing to do: the job restarts. If it happens again, check the links between the named nodes and the "
        "timeout of the process group.",
    ),
    EndReason.LAUNCHER: End(
        "Could not be started", True, "infrastructure",
        "Read the sentence of the agent: the node, its container engine or its agent could not run the job.",
    ),
    EndReason.DISK_FULL: End(
        "Disk full", True, "infrastructure",
        "Free disk space on the named node, or write less: fewer checkpoints, smaller caches in the work folder.",
    ),
    EndReason.HANG: End(
        "No progress", True, "script",
        "Read the stack dumps in the log: the rank that is outside the collective holds up the others.",
    ),
    EndReason.SILENT_CORRUPTION: End(
        "Silent corruption", True, "infrastructure",
        "Nothing to do: the job restarts from the last checkpoint before the difference. An operator tests the node.",
    ),
    EndReason.DATA_REVIEW: End(
        "Data needs review", False, "",
        "What could not be read is listed on the dataset's page: drop or release it there, or push good files, and run "
        "the job again. Where the stored bytes are not those of the manifest, upload the data again. Where a source "
        "was changed after it was registered, register it again and name the new version.",
    ),
    EndReason.REFUSED: End(
        "Refused by the platform", True, "script",
        "Something that the job needs was taken away after it was submitted: an approval, a secret, a version. The "
        "sentence says what; see to it and run the job again.",
    ),
    EndReason.PREEMPTED: End(
        "Preempted", True, "",
        "Nothing to do: the job resumes from its checkpoint once there are slots.",
    ),
    EndReason.SPOT_NOTICE: End(
        "Node withdrawn", True, "",
        "Nothing to do: the cloud takes the node back and the job resumes on another.",
    ),
    EndReason.MAINTENANCE: End(
        "Node maintenance", True, "",
        "Nothing to do: an operator works on the node and the job resumes on another.",
    ),
    EndReason.TIME_LIMIT: End(
        "Time limit reached", False, "",
        "Clone the job with a larger max_runtime_hours; it can resume from the last checkpoint.",
    ),
    EndReason.CANCELLED: End(
        "Cancelled", False, "",
        "Clone the job to run it again; it can resume from the last checkpoint.",
    ),
    EndReason.STOPPED: End(
        "Stopped on the node", True, "infrastructure",
        "Its processes were stopped on the node without an order of the platform. Ask the node's operator.",
    ),
    EndReason.SUCCEEDED: End("Succeeded", False, "", ""),
})  # fmt: skip


def with_exit_code(end: EndReason, exit_code: int | None) -> EndReason:
    """Corrects a reason that contradicts the exit code: success is exit code 0 and nothing else."""
    if end is EndReason.SCRIPT_ERROR and exit_code == 0:
        return EndReason.SUCCEEDED
    if end is EndReason.SUCCEEDED and exit_code != 0:
        return EndReason.SCRIPT_ERROR
    return end
