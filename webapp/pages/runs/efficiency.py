"""The tab of efficiency: where the time of a run goes, what limits it, and its curves over time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from platform_core.efficiency.advice import Advice
from platform_core.efficiency.ranks import Rank
from platform_core.parallelism.calibration import apart
from platform_core.units import format_bytes
from webapp.experiments import efficiency, predictions
from webapp.experiments.models import Run
from webapp.metrics import queries as metrics
from webapp.pages.experiments import charts
from webapp.pages.experiments.charts import Drawing
from webapp.pages.figures import Figure

MOST_RANKS = 64  # in the table, the slowest first
_PARTS = ("compute", "communication", "data", "checkpoint", "evaluation")
_WIDTH = 1000
_OF_GPU = {
    "sm_active": "SM activity",
    "tensor_active": "Tensor core activity",
    "memory_bandwidth_used": "Memory bandwidth used",
    "nvlink_received_bytes_per_second": "NVLink bytes received a second",
    "pcie_received_bytes_per_second": "PCIe bytes received a second",
    "power_watts": "Power in W",
}
_CURVES = {
    "ranks/0/step_seconds": "Step time of rank 0, s",
    "ranks/0/mfu": "MFU of rank 0",
    "ranks/0/tokens_per_second": "Tokens a second of rank 0",
    "ranks/0/samples_per_second": "Samples a second of rank 0",
    "ranks/0/data_share": "Share of time rank 0 waits for data",
    "ranks/0/memory_bytes": "Memory of rank 0",
    "system/gpu0/utilisation": "Utilisation of GPU 0",
    "system/slot0/utilisation": "Utilisation of slot 0",
    "system/node0/gpu0/utilisation": "Utilisation of GPU 0, first node",
    "system/node0/slot0/utilisation": "Utilisation of slot 0, first node",
    **{f"system/gpu0/{name}": f"{words} of GPU 0" for name, words in _OF_GPU.items()},
    **{f"system/node0/gpu0/{name}": f"{words} of GPU 0, first node" for name, words in _OF_GPU.items()},
    "system/host/cpu_utilisation": "CPU utilisation",
    "system/node0/host/cpu_utilisation": "CPU utilisation, first node",
}


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of the bar, in thousandths of its width."""

    name: str
    label: str
    at: float
    width: float
    shown: str


@dataclass(frozen=True, slots=True)
class RankLine:
    rank: Rank
    step: str
    own: str
    times: str  # its own time over the median, of a straggler
    node: str


@dataclass(frozen=True, slots=True)
class AdviceLine:
    advice: Advice
    gain: str


@dataclass(frozen=True, slots=True)
class EfficiencyPart:
    figures: Sequence[Figure]
    parts: Sequence[Part]
    advice: Sequence[AdviceLine]
    ranks: Sequence[RankLine]
    more_ranks: int
    slow_nodes: Sequence[str]
    notes: Sequence[str]  # what the figures do not say
    charts: Sequence[dict[str, Any]]


def part(run: Run) -> EfficiencyPart:
    found = efficiency.of_run(run)
    known = set(metrics.keys([run.id]))
    slow = {straggler.rank: straggler for straggler in found.stragglers}
    ranks = sorted(found.ranks, key=lambda rank: (-(rank.own_seconds or 0.0), -rank.step_seconds, rank.rank))
    return EfficiencyPart(
        figures=[*_figures(found), *_predicted(run)],
        parts=_bar(found),
        advice=[AdviceLine(advice, _gain(advice)) for advice in found.advice],
        ranks=[
            RankLine(
                rank,
                _milliseconds(rank.step_seconds),
                "–" if rank.own_seconds is None else _milliseconds(rank.own_seconds),
                f"{slow[rank.rank].times:.2f} ×" if rank.rank in slow else "",
                slow[rank.rank].node if rank.rank in slow else "",
            )
            for rank in ranks[:MOST_RANKS]
        ],
        more_ranks=max(0, len(ranks) - MOST_RANKS),
        slow_nodes=found.slow_nodes,
        notes=_notes(found),
        charts=[
            {**chart, "title": _CURVES[chart["key"]]}
            for chart in charts.of_runs(
                [run], [key for key in _CURVES if key in known], Drawing(x="relative")
            )
        ],
    )


def percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


def _milliseconds(seconds: float) -> str:
    return f"{_rate(seconds * 1000)} ms"


def _rate(value: float) -> str:
    """Four significant digits, never with an exponent."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _figures(found: efficiency.Efficiency) -> list[Figure]:
    wanted = f"target {100 * found.target.low:.0f}–{100 * found.target.high:.0f} %" if found.target else ""
    figures = [
        Figure("MFU", percent(found.mfu), wanted if found.mfu is not None else found.mfu_missing),
        Figure("Utilisation", percent(found.utilisation)),
    ]
    if found.step_seconds is not None:
        figures.append(Figure("Step", _milliseconds(found.step_seconds)))
    rates = (("Tokens a second", found.tokens_per_second), ("Samples a second", found.samples_per_second))
    figures += [Figure(label, _rate(rate)) for label, rate in rates if rate is not None]
    if found.flops_per_second is not None:
        figures.append(Figure("Achieved", f"{found.flops_per_second / 1e12:,.3g} TFLOP/s", "all ranks"))
    if found.memory_bytes:
        figures.append(Figure("Memory", format_bytes(int(found.memory_bytes)), "most of a rank"))
    return figures


def _predicted(run: Run) -> list[Figure]:
    """By the planner, of a job that names its model and layout."""
    kept = predictions.of_run(run.id)
    if kept is None:
        return []
    seconds = kept.predicted_seconds * predictions.calibration(kept.gpu_type).factor
    note = f"measured {apart(kept.measured_seconds / seconds)}, without data"
    figures = [Figure("Step predicted", _milliseconds(seconds), note)]
    if kept.measured_bytes:
        figures.append(Figure("Memory predicted", format_bytes(kept.predicted_bytes), kept.layout))
    return figures


def _notes(found: efficiency.Efficiency) -> list[str]:
    mixed = (
        "The ranks differ: one waits for the others where another computes, and the bar is the mean of them."
    )
    notes = [mixed] if found.breakdown is not None and found.breakdown.is_mixed else []
    return notes + ([found.not_measured] if found.not_measured else [])


def _bar(found: efficiency.Efficiency) -> list[Part]:
    if found.breakdown is None:
        return []
    parts, at = [], 0.0
    for name in _PARTS:
        share = getattr(found.breakdown, name)
        if not share:
            continue
        joined = name == "compute" and found.breakdown.communication is None and len(found.ranks) > 1
        label = "compute and communication" if joined else "waiting for data" if name == "data" else name
        parts.append(Part(name, label, round(at, 1), round(_WIDTH * share, 1), percent(share)))
        at += _WIDTH * share
    return parts


def _gain(advice: Advice) -> str:
    return "" if advice.gain is None else f"up to {100 * advice.gain:.0f} %"
