"""What a training step of a waiting job takes on the places that it could get, by the planner."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from platform_core.cluster.snapshot import PendingJob
from platform_core.jobs.spec import JobSpec
from platform_core.parallelism.hardware import Cluster
from platform_core.parallelism.place_steps import place_steps, planned_ms
from platform_core.parallelism.rank_traffic import rank_traffic
from webapp.nodes import queries as nodes

NodeOf = Callable[[str], Cluster | None]


def nodes_of_types() -> NodeOf:
    """Returns the usual node of a GPU type; each is read once."""
    return cache(nodes.node_of_type)


def with_place_steps(job: PendingJob, spec: JobSpec, node_of: NodeOf) -> PendingJob:
    if (traffic := rank_traffic(spec)) is not None:
        job = replace(job, traffic=traffic)
    if spec.num_gpus == 1 or not spec.transformer.is_given or (node := node_of(spec.gpu_type)) is None:
        return job
    steps = place_steps(spec, node)
    return replace(job, place_steps=steps, planned_ms=planned_ms(spec, steps))
