"""What `trainmaster up` starts on this machine: one node with its GPUs, or several with CPU slots."""

from dataclasses import dataclass

CPU_NODES, CPU_SLOTS = 4, 2  # enough to show gangs on several nodes


@dataclass(frozen=True)
class Nodes:
    agents: int
    slots: int  # of each; 0: the GPUs that its agent finds


def gpus() -> int:
    """That the driver counts, whether they work or not."""
    try:
        import pynvml

        pynvml.nvmlInit()
        return int(pynvml.nvmlDeviceGetCount())
    except Exception:  # the library is absent or does not load, in a dozen ways
        return 0


def nodes(agents: int | None, slots: int | None, gpus: int) -> Nodes:
    """None is what was not asked for. Two agents cannot share the GPUs, so several have CPU slots."""
    if gpus and slots is None and agents in (None, 1):
        return Nodes(1, 0)
    return Nodes(CPU_NODES if agents is None else agents, slots or CPU_SLOTS)
