"""What slots are called on a page."""

from collections.abc import Iterable

CPU_TYPE = "cpu"


def slot_noun(gpu_types: Iterable[str]) -> str:
    """ "GPU" where all of these types are GPUs; "slot" where CPU slots are among them, or nothing is known."""
    types = set(gpu_types)
    return "GPU" if types and CPU_TYPE not in types else "slot"
