"""How much of one GPU type a team may hold, and how much it holds and waits for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """`guaranteed` is the team's own; from there to `maximum` it borrows what others leave idle."""

    guaranteed: int
    maximum: int
    queue_beyond: bool = True  # jobs beyond the maximum wait; otherwise they are refused

    def __post_init__(self) -> None:
        if not 0 <= self.guaranteed <= self.maximum:
            given = f"guaranteed is {self.guaranteed} and maximum {self.maximum}"
            raise ValueError(f"{given}; it must be 0 <= guaranteed <= maximum")


@dataclass(frozen=True, slots=True)
class Usage:
    held: int  # GPUs that run for the team now
    queued: int  # GPUs that its waiting jobs ask for

    @property
    def total(self) -> int:
        return self.held + self.queued
