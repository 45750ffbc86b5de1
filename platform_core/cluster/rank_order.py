"""Which node of a gang gets which ranks, so that the heavier traffic of a pipeline stays inside racks.

Ranks follow `pp, dp, fsdp, cp, tp` in every gang (see `platform_core.jobs.parallel`); only the order of the nodes is
chosen. A stage takes whole nodes, so the gang is a grid of stages and columns, and the nodes, sorted by rack, fill it
stage by stage (data groups near) or column by column (neighbours of a pipeline near).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from platform_core.cluster.snapshot import RankTraffic


def node_order(racks: Sequence[Hashable], stages: int, traffic: RankTraffic) -> tuple[int, ...]:
    """The nodes in order of rank, each by its position in `racks`, where the nodes of a rack follow each other.

    `traffic`: between two nodes, as `RankTraffic.between_nodes` gives it.
    """
    nodes = len(racks)
    by_stage = tuple(range(nodes))
    if nodes % stages or stages in (1, nodes) or len(set(racks)) == 1:
        return by_stage
    columns = nodes // stages
    by_column = tuple(column * stages + stage for stage in range(stages) for column in range(columns))

    def bytes_between_racks(order: tuple[int, ...]) -> int:
        pipeline, data = links_between_racks([racks[position] for position in order], stages)
        return pipeline * traffic.pipeline + data * traffic.data

    return min(by_column, by_stage, key=bytes_between_racks)


def links_between_racks(racks: Sequence[Hashable], stages: int) -> tuple[int, int]:
    """How many pairs of neighbouring nodes, by stage and in the rings of the data groups, lie in two racks.

    `racks`: of the nodes in order of rank.
    """
    columns = len(racks) // stages
    pipeline = sum(near != far for near, far in zip(racks, racks[columns:], strict=False))
    rings = [racks[first : first + columns] for first in range(0, len(racks), columns)]
    data = sum(ring[place - 1] != rack for ring in rings for place, rack in enumerate(ring))
    return pipeline, data
