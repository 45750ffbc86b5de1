"""Holds this process to its share of the memory of a GPU that it has together with other replicas."""

from __future__ import annotations

import logging
from importlib.util import find_spec

from platform_core.cluster.gpu_shares import allocator_share
from platform_core.serving.runtimes import RuntimeName
from platform_core.units import format_bytes
from trainmaster.serving.runtimes.custom import LoadError

log = logging.getLogger(__name__)


def hold(share: float, runtime: RuntimeName) -> None:
    """Torch refuses allocations beyond it. Raises LoadError where nothing would hold the runtime to its share."""
    if share >= 1:
        return
    if runtime is RuntimeName.ONNX:
        raise LoadError(
            "The runtime onnx does not hold to a share of a GPU; serve it on a whole GPU or on CPU slots, or serve"
            " another form of the model."
        )
    if find_spec("torch") is None:
        raise LoadError("A replica on a share of a GPU needs torch, which holds it to its share; install it.")
    import torch

    if not torch.cuda.is_available():
        raise LoadError(
            "This replica has a share of a GPU, but torch finds none; see the driver of the node."
        )
    try:
        part = allocator_share(share, int(torch.cuda.get_device_properties(0).total_memory))
    except ValueError as error:
        raise LoadError(f"This replica cannot run: {error}.") from error
    torch.cuda.set_per_process_memory_fraction(part)
    log.info("torch may take %.1f %% of the memory of this GPU", part * 100)


def refusal(share: float, error: RuntimeError) -> str:
    """What an error of torch means for a replica that is held to its share; "" where it means nothing else.

    torch names the free memory of the GPU first, which the replica may not take.
    """
    if share >= 1 or type(error).__name__ != "OutOfMemoryError":
        return ""
    import torch

    total = int(torch.cuda.get_device_properties(0).total_memory)
    allowed = format_bytes(round(allocator_share(share, total) * total))
    asked = str(error).partition(". GPU ")[0].removeprefix("CUDA out of memory. ")
    return (
        f"CUDA out of memory: this replica may take {allowed}, its share of a GPU. {asked}. Serve it on a larger"
        " share or a whole GPU, or make the model smaller."
    )
