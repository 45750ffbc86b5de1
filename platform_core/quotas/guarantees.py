"""Limits of guarantees: all teams together may not be guaranteed more slots than the cluster has."""

from __future__ import annotations

from dataclasses import dataclass

from platform_core.quotas.admission import Refused
from platform_core.units import plural


@dataclass(frozen=True, slots=True)
class Raise:
    """A change of a team's guarantee for one GPU type."""

    team: str
    gpu_type: str
    before: int
    wanted: int


def admit(asked: Raise, others: int, slots: int) -> Refused | None:
    """None if the guarantee may be set. `others`: the guarantees of other teams; `slots`: the registered slots.

    Lowering is always allowed, and so is any guarantee before a node with this type has joined.
    """
    if asked.wanted <= asked.before or not slots or asked.wanted + others <= slots:
        return None
    numbers: tuple[tuple[str, int | str], ...] = (
        ("team", asked.team), ("gpu_type", asked.gpu_type), ("wanted", asked.wanted), ("others", others),
        ("slots", slots), ("most", max(0, slots - others)),
    )  # fmt: skip
    return Refused("guarantee_too_large", numbers, "")


def overcommitted(gpu_type: str, guaranteed: int, slots: int) -> str:
    """A sentence if all teams together are guaranteed more slots than there are, else ""."""
    if guaranteed <= slots:
        return ""
    together = f"All teams together are guaranteed {plural(guaranteed, f'{gpu_type} slot')}"
    if not slots:
        return f"{together}, but no node with {gpu_type} has joined yet."
    return f"{together}, but the cluster has {slots}."
