"""How well a run uses its hardware: its series of ranks and of the system, judged by the core."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from platform_core.efficiency.advice import Advice, Facts, advise
from platform_core.efficiency.mfu import Target, target, why_missing
from platform_core.efficiency.peaks import Precision, peak
from platform_core.efficiency.ranks import (
    OF_A_PROFILE,
    Breakdown,
    Rank,
    Straggler,
    breakdown,
    ranks_of,
    slow_nodes,
    stragglers,
    what_is_not_measured,
)
from platform_core.experiments.names import RANKS, SYSTEM
from webapp.experiments.models import Run
from webapp.jobs import queries as jobs
from webapp.metrics import queries as metrics
from webapp.metrics.values import Level
from webapp.nodes import queries as nodes

_USE = re.compile(rf"{SYSTEM}(?:node\d+/)?(?:gpu|slot)\d+/utilisation")
_MEMORY = re.compile(rf"{SYSTEM}(?:node\d+/)?gpu\d+/memory_bytes")
_HEAT = re.compile(rf"{SYSTEM}(?:node\d+/)?gpu\d+/temperature_celsius")
_CPU = re.compile(rf"{SYSTEM}(?:node\d+/)?host/cpu_utilisation")


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Means over the run; None: not measured. Rates are of all ranks together."""

    ranks: tuple[Rank, ...]
    breakdown: Breakdown | None
    step_seconds: float | None
    samples_per_second: float | None
    tokens_per_second: float | None
    flops_per_second: float | None
    mfu: float | None
    mfu_missing: str  # why there is none, as a sentence
    target: Target | None  # where the peak of its GPUs is known
    utilisation: float | None
    memory_bytes: float | None  # the most of any rank
    stragglers: tuple[Straggler, ...]
    slow_nodes: tuple[str, ...]
    not_measured: str  # about communication and stragglers, as a sentence
    advice: tuple[Advice, ...]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the ranks of a job run."""

    gpu_type: str = ""
    nodes: Mapping[int, str] | None = None  # rank → hostname
    slot_bytes: int = 0


def of_run(run: Run) -> Efficiency:
    return of_runs([run])[run.id]


def of_runs(runs: Iterable[Run]) -> dict[str, Efficiency]:
    """By id of the run."""
    wanted = list(runs)
    levels = metrics.levels([run.id for run in wanted], (RANKS, SYSTEM))
    return {run.id: _judged(levels[run.id], _place(run)) for run in wanted}


def _place(run: Run) -> _Place:
    if run.job is None:
        return _Place()
    newest = next(iter(jobs.attempts(run.job.id)), None)
    members = sorted(newest.members.all(), key=lambda member: member.rank) if newest is not None else []
    names = [member.node.hostname for member in members for _ in member.slots]
    slots = nodes.slots([member.node_id for member in members])
    sizes = [use.memory_bytes for of_node in slots.values() for use in of_node]
    return _Place(run.job.gpu_type, dict(enumerate(names)), min(sizes, default=0))


def _judged(levels: Mapping[str, Level], place: _Place) -> Efficiency:
    ranks = ranks_of(
        {key: level.last if key.endswith(OF_A_PROFILE) else level.mean for key, level in levels.items()}
    )
    parts = breakdown(ranks)
    use = tuple(level.mean for key, level in levels.items() if _USE.fullmatch(key))
    slow = stragglers(ranks, place.nodes)
    shares = [rank.mfu for rank in ranks if rank.mfu is not None]
    known = peak(place.gpu_type, Precision.HALF) is not None
    return Efficiency(
        ranks=ranks,
        breakdown=parts,
        step_seconds=max((rank.step_seconds for rank in ranks), default=None),
        samples_per_second=_sum(rank.samples_per_second for rank in ranks),
        tokens_per_second=_sum(rank.tokens_per_second for rank in ranks),
        flops_per_second=_sum(rank.flops_per_second for rank in ranks),
        mfu=sum(shares) / len(shares) if shares else None,
        mfu_missing=""
        if shares
        else why_missing((r.flops_missing for r in ranks), place.gpu_type, has_peak=known),
        target=target(len(ranks)) if known and ranks else None,
        utilisation=sum(use) / len(use) if use else None,
        memory_bytes=max((rank.memory_bytes or 0.0 for rank in ranks), default=None),
        stragglers=slow,
        slow_nodes=slow_nodes(slow, _ranks_by_node(place)),
        not_measured=what_is_not_measured(ranks),
        advice=advise(_facts(levels, place, parts, use, slow, ranks)) if parts is not None else (),
    )


def _facts(
    levels: Mapping[str, Level],
    place: _Place,
    parts: Breakdown,
    use: tuple[float, ...],
    slow: tuple[Straggler, ...],
    ranks: tuple[Rank, ...],
) -> Facts:
    used = max((level.max for key, level in levels.items() if _MEMORY.fullmatch(key)), default=None)
    cpu = [level.mean for key, level in levels.items() if _CPU.fullmatch(key)]
    bits = next((rank.precision_bits for rank in ranks if rank.precision_bits), None)
    profiled = next((rank for rank in ranks if rank.idle is not None), None)
    return Facts(
        gpu_type=place.gpu_type,
        breakdown=parts,
        utilisation=use,
        memory_used=used / place.slot_bytes if used is not None and place.slot_bytes else None,
        memory_bytes=place.slot_bytes or None,
        cpu_use=max(cpu, default=None),
        temperature=max((level.max for key, level in levels.items() if _HEAT.fullmatch(key)), default=None),
        precision_bits=round(bits) if bits else None,
        stragglers=slow,
        idle=profiled.idle if profiled else None,
        synchronising=profiled.synchronising if profiled else None,
        kernel_us=profiled.kernel_us if profiled else None,
    )


def _ranks_by_node(place: _Place) -> dict[str, int]:
    count: dict[str, int] = {}
    for node in (place.nodes or {}).values():
        count[node] = count.get(node, 0) + 1
    return count


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
