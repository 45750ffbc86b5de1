"""The layout of the job and its torch DeviceMesh: on the platform that of the job file, elsewhere of a variable."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from platform_core.errors import TrainmasterError
from platform_core.jobs.parallel import ORDER, Parallel, from_text
from platform_core.jobs.reader import SpecError
from trainmaster.environment import job_environment, layout_environment

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


def layout() -> Parallel:
    """The sizes dp, fsdp, tp, cp, pp and ep and the flag sp for the ranks that there are; dp is never None.

    They come from `parallel` of the job file, elsewhere from TRAINMASTER_PARALLEL="fsdp=2,tp=2"; without either all
    ranks are copies (dp).
    """
    text = layout_environment()
    try:
        asked = from_text(text)
    except SpecError as error:
        raise _invalid(f"{text!r}: {'; '.join(problem.sentence for problem in error.problems)}") from None
    ranks = _ranks()
    if ranks % asked.copy:
        needed = f"{asked.copy} ranks or a multiple of it"
        raise _invalid(f"one copy of the model ({asked.title}) takes {needed}, but there are {ranks}")
    sized = asked.sized(ranks)
    if asked.dp not in (None, sized.dp):
        needed = f"{(asked.dp or 1) * asked.copy} ranks"
        raise _invalid(
            f"{asked.title} takes {needed}, but there are {ranks}; set dp={sized.dp} or leave it out"
        )
    return sized


def device_mesh(device_type: str = "") -> DeviceMesh:
    """The mesh with the dimensions pp, dp, fsdp, cp and tp, from the outermost to the innermost. All ranks call it.

    A dimension that the layout does not name has one rank, so that `mesh["tp"]` works with every layout. Without
    `device_type` it is cuda where torch has it, else cpu.
    """
    sizes = layout()
    return _mesh(device_type, {name: getattr(sizes, name) for name in ORDER})


def expert_mesh(device_type: str = "") -> DeviceMesh:
    """The same ranks for the layers of experts: the dimensions pp, dp, ep, cp and tp. All ranks call it.

    The data ranks, dp x fsdp of `device_mesh()`, are divided: those of one `ep` group hold different experts, and those
    of one `dp` group hold the same and add up their gradients.
    """
    sizes = layout()
    copies = (sizes.dp or 1) * sizes.fsdp
    if copies % sizes.ep:
        raise _invalid(f"{copies} data ranks (dp x fsdp) cannot be divided into {sizes.ep} expert ranks (ep)")
    divided = {"pp": sizes.pp, "dp": copies // sizes.ep, "ep": sizes.ep, "cp": sizes.cp, "tp": sizes.tp}
    return _mesh(device_type, divided)


def _mesh(device_type: str, sizes: Mapping[str, int]) -> DeviceMesh:
    import torch
    from torch.distributed.device_mesh import init_device_mesh

    device = device_type or ("cuda" if torch.cuda.is_available() else "cpu")
    return init_device_mesh(device, tuple(sizes.values()), mesh_dim_names=tuple(sizes))


def _ranks() -> int:
    """Of the process group, if there is one."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_world_size())
    return job_environment().world_size


def _invalid(why: str) -> TrainmasterError:
    return TrainmasterError("request_invalid", what="TRAINMASTER_PARALLEL", why=why)
