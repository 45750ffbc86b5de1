"""What may be guaranteed: all teams together no more slots of a type than the cluster has."""

from __future__ import annotations

from dataclasses import dataclass

from platform_core.quotas.admission import Refused
from platform_core.units import plural


@dataclass(frozen=True, slots=True)
class Raise:
    """A team's guarantee of one GPU type as it is, and as it is asked for."""

    team: str
    gpu_type: str
    before: int
    wanted: int


def admit(asked: Raise, others: int, slots: int) -> Refused | None:
    """None where the guarantee may be set. `others`: what is guaranteed to other teams; `slots`: those registered.

    Lowering always passes, and so does everything before a node with this type has joined: teams are made first.
    """
    if asked.wanted <= asked.before or not slots or asked.wanted + others <= slots:
        return None
    numbers: tuple[tuple[str, int | str], ...] = (
        ("team", asked.team), ("gpu_type", asked.gpu_type), ("wanted", asked.wanted), ("others", others),
        ("slots", slots), ("most", max(0, slots - others)),
    )  # fmt: skip
    return Refused("guarantee_too_large", numbers, "")


def overcommitted(gpu_type: str, guaranteed: int, slots: int) -> str:
    """A sentence where all teams together are guaranteed more than there is; "" where they are not."""
    if guaranteed <= slots:
        return ""
    together = f"All teams together are guaranteed {plural(guaranteed, f'{gpu_type} slot')}"
    if not slots:
        return f"{together}, but no node with {gpu_type} has joined yet."
    return f"{together}, but the cluster has {slots}."
