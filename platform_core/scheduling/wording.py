"""Words for amounts, lists of names and placements."""

from __future__ import annotations

from collections.abc import Sequence

from platform_core.units import plural, slot_noun

NAMES_SHOWN = 3


def amount(count: int, gpu_type: str) -> str:
    """'4 slots of cpu', '1 GPU of a100-80gb'."""
    return f"{plural(count, slot_noun(gpu_type)[:-1])} of {gpu_type}"


def are(count: int, adjective: str) -> str:
    """'3 are free', '1 is free', 'none is free'."""
    if count == 0:
        return f"none is {adjective}"
    return f"{count} {'is' if count == 1 else 'are'} {adjective}"


def grouped(tensor: int, group: int, node_slots: int) -> str:
    """'in equal parts of whole groups of 8 (tp 4 x cp 2)'; tensor ranks alone where no node has so many slots."""
    size, context = (group, group // tensor) if group <= node_slots else (tensor, 1)
    names = [f"{name} {count}" for name, count in (("tp", tensor), ("cp", context)) if count > 1]
    return f"in equal parts of whole groups of {size} ({' x '.join(names)})"


def listed(names: Sequence[str]) -> str:
    first = ", ".join(names[:NAMES_SHOWN])
    return first if len(names) <= NAMES_SHOWN else f"{first} and {len(names) - NAMES_SHOWN} more"


def placed_sentence(gpus: int, gpu_type: str, racks: Sequence[str]) -> str:
    """Where a gang was placed, given the rack of each of its nodes."""
    if len(racks) == 1:
        return f"{amount(gpus, gpu_type)} on one node, the tightest fit"
    different = len(set(racks))
    where = f"in rack {racks[0]}" if different == 1 and racks[0] else f"in {plural(different, 'rack')}"
    return f"{amount(gpus, gpu_type)} on {len(racks)} nodes {where}, {gpus // len(racks)} on each"


def held_sentence(held: int, nodes: int) -> str:
    """On how many nodes of a place the dataset is."""
    if nodes == 1:
        return "its dataset is there already"
    return (
        "its dataset is on all of them already"
        if held == nodes
        else f"its dataset is on {held} of them already"
    )
