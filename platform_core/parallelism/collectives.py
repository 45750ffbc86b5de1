"""Seconds of a collective over ranks that lie in NVLink islands and in nodes.

Ring algorithms (Thakur, Rabenseifner and Gropp 2005; NCCL): an all-reduce of n bytes over r ranks takes 2 (r -
1)/r n / bandwidth and 2 (r - 1) latencies, a reduce-scatter or an all-gather half of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from platform_core.parallelism.hardware import Cluster

# Shares of the stated bandwidth that NCCL's large messages reach: 235 of 300 GB/s on A100 (NVSwitch,
# nccl-tests all_reduce bus bandwidth on DGX A100), 0.80-0.85 of InfiniBand line rate between nodes.
NVLINK_SHARE, NETWORK_SHARE = 0.78, 0.85
NVLINK_LATENCY, NETWORK_LATENCY = 2e-6, 5e-6  # of one step of a ring
CALL = 15e-6  # seconds to start a collective


@dataclass(frozen=True, slots=True)
class Link:
    """What each rank of a group sends at, in bytes/s, and what a step takes besides."""

    rate: float
    latency: float


@dataclass(frozen=True, slots=True)
class Group:
    """Ranks of one collective: `ranks` of them, `local` of which share an island, the neighbours `stride` GPUs
    apart."""

    ranks: int
    stride: int = 1


def link(cluster: Cluster, group: Group) -> Link:
    """All groups of a layout communicate at the same time, so ranks share the network of their node: a ring
    that has `local` ranks on each node crosses with that many shares."""
    local = max(1, min(group.ranks, cluster.joined // group.stride))
    island = Link(cluster.local_rate * NVLINK_SHARE, NVLINK_LATENCY)
    if group.ranks <= local or cluster.gpus <= cluster.joined:
        return island
    thin = cluster.oversubscription if leaves_rack(cluster, group) else 1.0
    rate = cluster.network_share * local * NETWORK_SHARE / thin
    return Link(min(rate, island.rate), NETWORK_LATENCY)


@lru_cache(maxsize=4_096)
def leaves_rack(cluster: Cluster, group: Group) -> bool:
    """Whether some group of this kind has ranks in two racks: of `ranks` x `stride` GPUs that follow each other, those
    a `stride` apart are one group."""
    span = -(-group.ranks * group.stride // cluster.gpus_per_node)
    if not cluster.racks:
        return 0 < cluster.leaf < span
    step = max(1, group.stride // cluster.gpus_per_node)
    starts = (first + at for first in range(0, cluster.nodes, span) for at in range(step))
    blocks = ((at, min(cluster.nodes, at // span * span + span)) for at in starts)
    return any(len(set(cluster.racks[at:end:step])) > 1 for at, end in blocks)


def ring_all_reduce(count: float, ranks: int, rate: float, latency: float) -> float:
    return 2 * ring_all_gather(count, ranks, rate, latency)


def ring_all_gather(count: float, ranks: int, rate: float, latency: float) -> float:
    """Of `count` bytes in all; a reduce-scatter takes as long."""
    return (ranks - 1) / ranks * count / rate + (ranks - 1) * latency


def all_reduce(cluster: Cluster, group: Group, count: float) -> float:
    return 2 * all_gather(cluster, group, count) - CALL if group.ranks > 1 else 0.0


def all_gather(cluster: Cluster, group: Group, count: float) -> float:
    if group.ranks == 1:
        return 0.0
    path = link(cluster, group)
    return CALL + ring_all_gather(count, group.ranks, path.rate, path.latency)


def all_to_all(cluster: Cluster, group: Group, count: float) -> float:
    """Each rank sends (r - 1)/r of its `count` bytes, what leaves the island by the rank's own share of the
    network."""
    if group.ranks == 1:
        return 0.0
    local = max(1, min(group.ranks, cluster.joined // group.stride))
    near = (local - 1) / group.ranks * count / (cluster.local_rate * NVLINK_SHARE)
    far = (group.ranks - local) / group.ranks * count / (cluster.network_share * NETWORK_SHARE)
    return CALL + max(near, far) + group.ranks * NVLINK_LATENCY


def send(cluster: Cluster, pipeline: Group, count: float) -> float:
    """Between neighbours of a pipeline, both directions at once."""
    path = link(cluster, pipeline)
    return CALL + count / path.rate + path.latency
