"""What a step of a job takes on the places that it could get, with the order of ranks that the scheduler gives it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from platform_core.cluster.rank_order import node_order
from platform_core.cluster.snapshot import UNKNOWN_TRAFFIC, PlaceStep
from platform_core.jobs.definition import JobSpec
from platform_core.jobs.parallel import Parallel
from platform_core.jobs.transformer import Transformer
from platform_core.parallelism.hardware import Cluster
from platform_core.parallelism.job_plan import predict
from platform_core.parallelism.rank_traffic import rank_traffic

MOST_SPREAD = 4  # times the fewest nodes


def place_steps(spec: JobSpec, node: Cluster) -> tuple[PlaceStep, ...]:
    """What a step takes on as few nodes as hold the job, on more of them and in more racks; the fastest first.

    Empty where the job file does not say what the planner needs. A part of a node has the same part of its network,
    because the others there need theirs. `node` has the oversubscription of the network beyond a rack.
    """
    if not spec.transformer.is_given or spec.num_gpus == 1:
        return ()
    return _place_steps(_Asked(spec.transformer, spec.parallel, spec.num_gpus), node)


class _Asked(NamedTuple):
    """What of a job file its places depend on."""

    transformer: Transformer
    parallel: Parallel
    num_gpus: int


@lru_cache(maxsize=1_024)
def _place_steps(asked: _Asked, node: Cluster) -> tuple[PlaceStep, ...]:
    parallel, gpus = asked.parallel, asked.num_gpus
    fewest = node.holding(gpus).nodes
    steps: list[PlaceStep] = []
    for nodes in range(fewest, min(gpus, MOST_SPREAD * fewest) + 1):
        if gpus % nodes or gpus // nodes % parallel.tp:
            continue
        part = replace(node.holding(gpus // nodes), nodes=nodes)
        before = 0
        for racks in _rack_counts(nodes):
            plan = predict(asked, gpus, _in_racks(asked, part, racks))
            if plan is None:
                return ()
            step_us = max(before, round(plan.step.total * 1e6))  # more racks are never better
            if step_us == before:
                steps.pop()
            steps.append(PlaceStep(nodes, racks, step_us))
            before = step_us
    return tuple(sorted(steps, key=lambda step: (step.step_us, step.nodes, step.racks)))


def _in_racks(asked: _Asked, place: Cluster, racks: int) -> Cluster:
    """The nodes of the place spread evenly over so many racks, in the order of their ranks."""
    if racks == 1:
        return place
    leaf = -(-place.nodes // racks)
    known = rank_traffic(asked) or UNKNOWN_TRAFFIC
    traffic = known.between_nodes(place.gpus_per_node, asked.parallel.tp)
    order = node_order([position // leaf for position in range(place.nodes)], asked.parallel.pp, traffic)
    return replace(place, racks=tuple(position // leaf for position in order))


def _rack_counts(nodes: int) -> list[int]:
    """1, 2, 4, … and as many as nodes."""
    return [*(1 << power for power in range(nodes.bit_length()) if 1 << power < nodes), nodes]


def planned_ms(spec: JobSpec, steps: Sequence[PlaceStep]) -> int:
    """The whole training on the fastest place; 0 where its tokens are not given."""
    asked = spec.transformer
    if not steps or not asked.tokens:
        return 0
    return -(-asked.tokens // (asked.global_batch * asked.sequence)) * steps[0].step_us // 1_000
