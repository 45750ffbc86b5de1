"""GPU time that was paid for and not used, by whom and on what."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Use:
    """Of one job in a period. None: not measured, so that nothing is said of its waste."""

    job: str
    name: str
    team: str
    user: str
    gpu_type: str
    gpu_ms: int
    micro_dollars: int
    utilisation: float | None = None  # 0 to 1
    mfu: float | None = None

    @property
    def wasted_ms(self) -> int:
        return 0 if self.utilisation is None else round(self.gpu_ms * (1 - min(1.0, self.utilisation)))

    @property
    def wasted_micro_dollars(self) -> int:
        return 0 if self.gpu_ms == 0 else self.micro_dollars * self.wasted_ms // self.gpu_ms


@dataclass(frozen=True, slots=True)
class Total:
    """Of the jobs of one key. Means are weighted by GPU time, over the jobs that were measured."""

    key: str
    jobs: int
    gpu_ms: int
    micro_dollars: int
    wasted_ms: int
    wasted_micro_dollars: int
    utilisation: float | None
    mfu: float | None


def totals(uses: Iterable[Use], key: Callable[[Use], str]) -> tuple[Total, ...]:
    """The greatest waste first."""
    groups: dict[str, list[Use]] = {}
    for use in uses:
        groups.setdefault(key(use), []).append(use)
    found = [total(name, group) for name, group in groups.items()]
    return tuple(sorted(found, key=lambda each: (-each.wasted_ms, -each.gpu_ms, each.key)))


def total(key: str, uses: Iterable[Use]) -> Total:
    group = list(uses)
    return Total(
        key,
        jobs=len(group),
        gpu_ms=sum(use.gpu_ms for use in group),
        micro_dollars=sum(use.micro_dollars for use in group),
        wasted_ms=sum(use.wasted_ms for use in group),
        wasted_micro_dollars=sum(use.wasted_micro_dollars for use in group),
        utilisation=_mean((use.utilisation, use.gpu_ms) for use in group),
        mfu=_mean((use.mfu, use.gpu_ms) for use in group),
    )


def _mean(weighted: Iterable[tuple[float | None, int]]) -> float | None:
    known = [(value, weight) for value, weight in weighted if value is not None and weight > 0]
    weight = sum(weight for _, weight in known)
    return sum(value * part for value, part in known) / weight if weight else None
