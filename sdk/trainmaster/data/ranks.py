"""Which ranks are fed alike: those that hold parts of one copy of the model train on the same samples.

Ranks of the data dimensions, dp x fsdp, get different samples, also where experts are spread over them (ep). Tensor
ranks (tp), pipeline stages (pp) and context ranks (cp, which divide each sequence among them) get the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainmaster.checkpoints import collective
from trainmaster.environment import job_environment
from trainmaster.meshes import layout

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

# As Trainmaster, torch's tutorials, torchtitan, Accelerate and Megatron call them.
DATA = frozenset(
    {"dp", "fsdp", "ddp", "hsdp", "data", "batch", "replicate", "shard", "dp_replicate", "dp_shard", "ep"}
)
SAME = frozenset({"pp", "cp", "tp", "sp", "pipeline", "context", "tensor", "model", "etp"})


@dataclass(frozen=True, slots=True)
class DataRank:
    """`process`: of all ranks, where the names of files must differ."""

    rank: int
    size: int
    process: int


def data_rank(rank: int | None, world_size: int | None, mesh: DeviceMesh | None) -> DataRank:
    """By what the script says, else by its mesh, else by the layout of the job. ValueError with the numbers where they
    do not fit, TrainmasterError where the layout does not."""
    process, processes = _world()
    if rank is not None or world_size is not None:
        if mesh is not None:
            raise ValueError("Give the loader a mesh, or rank and world_size, not both.")
        if rank is None or world_size is None:
            given = f"rank {rank}" if world_size is None else f"world_size {world_size}"
            raise ValueError(f"{given} was given alone; give rank and world_size together, or neither.")
        return DataRank(rank, world_size, process if processes > 1 else rank)
    if mesh is not None:
        return _of_mesh(mesh, process, processes)
    sizes = layout()
    return DataRank(sizes.data_rank(process), sizes.data_ranks, process)


def _world() -> tuple[int, int]:
    if collective.active():
        return collective.rank(), collective.world_size()
    environment = job_environment()
    return environment.rank, environment.world_size


def _of_mesh(mesh: DeviceMesh, process: int, processes: int) -> DataRank:
    names = mesh.mesh_dim_names
    if names is None:
        raise ValueError(
            "The dimensions of the mesh have no names; make it with mesh_dim_names, or give rank and world_size."
        )
    if unknown := [name for name in names if name not in DATA | SAME]:
        raise ValueError(
            f"Whether ranks of the dimension {unknown[0]} of the mesh get the same samples is not known; give rank and "
            f"world_size. They get other samples in {', '.join(sorted(DATA))}, the same in {', '.join(sorted(SAME))}."
        )
    if mesh.size() != processes:
        raise ValueError(
            f"The mesh has {mesh.size()} ranks, and there are {processes}; give the whole mesh, or rank and world_size."
        )
    place = mesh.get_coordinate()
    if place is None:
        raise ValueError(f"Rank {process} is not in the mesh.")
    rank = 0
    for name, size, own in zip(names, mesh.shape, place, strict=True):
        rank = rank * size + own if name in DATA else rank
    size = math.prod(size for name, size in zip(names, mesh.shape, strict=True) if name in DATA)
    return DataRank(rank, size, process)
