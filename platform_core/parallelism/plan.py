"""One layout with what it costs: time, memory, money, and what limits it."""

from __future__ import annotations

from dataclasses import dataclass

from platform_core.jobs.transformer import Recompute
from platform_core.parallelism.calibration import Calibration
from platform_core.parallelism.fitting import fit
from platform_core.parallelism.hardware import Cluster
from platform_core.parallelism.layout import Layout, Recipe
from platform_core.parallelism.memory import Memory, memory
from platform_core.parallelism.model_shape import ModelShape
from platform_core.parallelism.step_time import StepTime, step_time
from platform_core.units import HOUR_MS, format_bytes


@dataclass(frozen=True, slots=True)
class Plan:
    """`step` in seconds, by part, calibrated; `step_ms` with its band; `mfu` is model FLOPs over the stated
    peak."""

    layout: Layout
    step: StepTime
    step_ms: int
    low_ms: int
    high_ms: int
    tokens_per_second: int
    mfu: float
    memory: Memory  # of the fullest stage
    stage: int  # which that is
    is_tight: bool  # within the band of the prediction it may need more than the GPU has
    limited_by: str

    @property
    def bubble_share(self) -> float:
        return self.step.bubble / self.step.total


def plan_of(
    shape: ModelShape,
    layout: Layout,
    cluster: Cluster,
    recipe: Recipe,
    global_batch: int,
    calibration: Calibration,
) -> Plan:
    step = step_time(shape, layout, cluster, recipe, global_batch).scaled(calibration.factor)
    held = fit(shape, layout, cluster, recipe, global_batch)
    seconds = step.total
    flops = global_batch * shape.flops()
    return Plan(
        layout=layout,
        step=step,
        step_ms=round(1_000 * seconds),
        low_ms=round(1_000 * seconds * calibration.low),
        high_ms=round(1_000 * seconds * calibration.high),
        tokens_per_second=round(global_batch * shape.sequence / seconds),
        mfu=flops / seconds / (layout.gpus * cluster.gpu.bf16_rate),
        memory=held.memory,
        stage=held.stage,
        is_tight=held.is_tight,
        limited_by=max(step.parts, key=lambda part: part[1])[0],
    )


def memory_by_stage(
    shape: ModelShape, layout: Layout, cluster: Cluster, recipe: Recipe, global_batch: int
) -> tuple[Memory, ...]:
    return tuple(
        memory(shape, layout, cluster, recipe, global_batch, stage) for stage in range(layout.pipeline)
    )


def room(plan: Plan) -> str:
    """ "71.6 GiB (53.7 GiB to 84.5 GiB)": what a GPU holds, with the band of the prediction."""
    held = plan.memory
    return f"{format_bytes(held.total)} ({format_bytes(held.low)} to {format_bytes(held.high)})"


@dataclass(frozen=True, slots=True)
class Run:
    """A whole training run."""

    steps: int
    duration_ms: int
    cost_micro_dollars: int


def run_of(plan: Plan, tokens: int, micro_dollars_per_gpu_hour: int, tokens_per_step: int) -> Run:
    steps = -(-tokens // tokens_per_step)
    duration = steps * plan.step_ms
    gpu_ms = duration * plan.layout.gpus
    return Run(steps, duration, -(-gpu_ms * micro_dollars_per_gpu_hour // HOUR_MS))


def title(layout: Layout) -> str:
    """ "FSDP 64 x TP 8", "DDP 8", "DP 4 (ZeRO 1) x TP 8 x PP 16 x 3 chunks"."""
    parts = [_data_title(layout)] if layout.data > 1 or layout.gpus == 1 else []
    for short, count in (
        ("TP", layout.tensor),
        ("CP", layout.context),
        ("EP", layout.expert),
        ("PP", layout.pipeline),
    ):
        if count > 1:
            parts.append(f"{short} {count}")
    if layout.virtual > 1:
        parts.append(f"{layout.virtual} chunks")
    text = " x ".join(parts)
    if layout.recompute is not Recompute.NONE:
        text += f", {layout.recompute} recompute"
    return text + (", optimizer offloaded" if layout.offload else "")


def _data_title(layout: Layout) -> str:
    if layout.zero == 3:
        kind = "HSDP" if layout.shard and layout.shard < layout.data else "FSDP"
    elif layout.zero:
        return f"DP {layout.data} (ZeRO {layout.zero})"
    else:
        kind = "DDP" if layout.gpus == layout.data else "DP"
    return f"{kind} {layout.data}"
