"""The fastest layouts that fit: every layout has a lower bound of its step time, and those that cannot win are
not looked at."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf
from typing import NamedTuple

from platform_core.parallelism.calibration import Calibration
from platform_core.parallelism.communication import layer_seconds
from platform_core.parallelism.fitting import fit
from platform_core.parallelism.hardware import Cluster
from platform_core.parallelism.layer_time import Slice, layer
from platform_core.parallelism.layout import Layout, Recipe, Refusal
from platform_core.parallelism.memory import fullest
from platform_core.parallelism.model_shape import ModelShape, first_layers
from platform_core.parallelism.plan import Plan, plan_of, title
from platform_core.parallelism.search_space import Limits, layouts
from platform_core.parallelism.step_time import step_time

Key = tuple[float, tuple[int, ...]]
REFUSED, NEAREST = 5, 200  # of the layouts that do not fit, how many an answer names, of so many
AS_GOOD = 1.02  # of the fastest step: less than the model can tell apart


class TooLarge(NamedTuple):
    layout: Layout
    refusal: Refusal


@dataclass(frozen=True, slots=True)
class Answer:
    """Plans from the fastest on. `too_large`: layouts that would be faster than the first plan but do not fit, the
    nearest to fitting first; `refusal`: why there is no plan."""

    plans: tuple[Plan, ...]
    looked_at: int
    pruned: int
    too_large: tuple[TooLarge, ...]
    refusal: Refusal | None
    offloaded: bool = False

    @property
    def simplest(self) -> Plan | None:
        """Of the plans that are as good as the fastest, the one with the fewest kinds of parallelism."""
        good = [plan for plan in self.plans if plan.step.total <= AS_GOOD * self.plans[0].step.total]
        return min(good, key=lambda plan: order(plan.layout), default=None)


def search(
    shape: ModelShape,
    cluster: Cluster,
    recipe: Recipe,
    global_batch: int,
    limits: Limits | None = None,
    keep: int = 10,
    calibration: Calibration | None = None,
) -> Answer:
    """The `keep` fastest plans. Where nothing fits, it looks again with the optimizer in the memory of the
    hosts."""
    limits = limits or Limits()
    layouts = _search(shape, cluster, recipe, global_batch, limits, keep, calibration or Calibration())
    if layouts.plans or limits.offload:
        return layouts
    if not layouts.too_large:
        return replace(layouts, refusal=_indivisible(shape, cluster, global_batch, limits))
    hosts = replace(limits, offload=True)
    again = _search(shape, cluster, recipe, global_batch, hosts, keep, calibration or Calibration())
    return replace(again, too_large=layouts.too_large, refusal=layouts.refusal, offloaded=True)


def _search(
    shape: ModelShape,
    cluster: Cluster,
    recipe: Recipe,
    global_batch: int,
    limits: Limits,
    keep: int,
    calibration: Calibration,
) -> Answer:
    bounded = sorted(
        (
            (lower_bound(shape, layout, cluster, recipe, global_batch), order(layout), layout)
            for layout in layouts(shape, cluster, global_batch, limits)
        ),
        key=lambda entry: entry[:2],
    )
    best: list[tuple[Key, Layout]] = []
    looked_at = 0
    refused: list[tuple[int, Layout]] = []
    for bound, sequence, layout in bounded:
        if len(best) == keep and bound > best[-1][0][0]:
            break
        looked_at += 1
        needed = fullest(shape, layout, cluster, recipe, global_batch)[1].total
        if needed > cluster.gpu.memory_bytes:
            refused.append((needed, layout))
            continue
        seconds = step_time(shape, layout, cluster, recipe, global_batch).total
        insort(best, ((seconds, sequence), layout), key=lambda entry: entry[0])
        del best[keep:]
    plans = tuple(plan_of(shape, layout, cluster, recipe, global_batch, calibration) for _key, layout in best)
    limit = best[0][0][0] if best else inf
    too_large = _faster(
        refused, lambda layout: step_time(shape, layout, cluster, recipe, global_batch).total < limit
    )
    verdicts = ((layout, fit(shape, layout, cluster, recipe, global_batch).refusal) for layout in too_large)
    faster = tuple(TooLarge(layout, verdict) for layout, verdict in verdicts if verdict)
    refusal = faster[0].refusal if faster and not plans else None
    return Answer(plans, looked_at, len(bounded) - looked_at, faster, refusal)


def _faster(refused: list[tuple[int, Layout]], is_faster: Callable[[Layout], bool]) -> list[Layout]:
    """Of layouts with the bytes that they need, the nearest to fitting of each title."""
    found: dict[str, Layout] = {}
    for _needed, layout in sorted(refused, key=lambda one: (one[0], order(one[1])))[:NEAREST]:
        if len(found) == REFUSED:
            break
        name = title(layout)
        if name not in found and is_faster(layout):
            found[name] = layout
    return list(found.values())


def _indivisible(shape: ModelShape, cluster: Cluster, global_batch: int, limits: Limits) -> Refusal:
    """Names the largest number of GPUs that some layout divides."""
    smaller = range(cluster.gpus - 1, 0, -1)
    usable = (count for count in smaller if any(layouts(shape, cluster.holding(count), global_batch, limits)))
    most = next(usable, 0)
    sentence = (
        f"no layout divides {cluster.gpus:,} GPUs over a batch of {global_batch:,}, {shape.heads} heads and "
        f"{shape.layers} layers"
    )
    return Refusal(
        "indivisible", cluster.gpus, most, f"{sentence}; {most:,} GPUs can be used" if most else sentence
    )


def order(layout: Layout) -> tuple[int, ...]:
    """Of two equally fast layouts the simpler one comes first."""
    return (
        layout.pipeline, layout.tensor, layout.context, layout.expert, layout.virtual, layout.zero,
        layout.shard, int(layout.sequence_parallel), tuple(type(layout.recompute)).index(layout.recompute),
        layout.micro_batch, int(layout.offload),
    )  # fmt: skip


def lower_bound(
    shape: ModelShape, layout: Layout, cluster: Cluster, recipe: Recipe, global_batch: int
) -> float:
    """Seconds that the layers alone take: m micro-batches and the bubble, without ends, sends, gradients and
    update. Stages that hold more layers than others, or slower ones, only make it longer."""
    all_layers = _all_layers(
        shape,
        Layout(
            data=layout.expert,
            tensor=layout.tensor,
            context=layout.context,
            expert=layout.expert,
            micro_batch=layout.micro_batch,
            sequence_parallel=layout.sequence_parallel,
            recompute=layout.recompute,
        ),
        cluster,
        recipe,
    )
    rounds = layout.micro_batches(global_batch) + (layout.pipeline - 1) / layout.virtual
    return rounds * all_layers / layout.pipeline * (1 - 1e-9)


@lru_cache(maxsize=16_384)
def _all_layers(shape: ModelShape, layout: Layout, cluster: Cluster, recipe: Recipe) -> float:
    seconds = (shape.layers - shape.dense_layers) * _layer(shape, layout, cluster, recipe)
    if shape.dense_layers:
        seconds += shape.dense_layers * _layer(first_layers(shape), layout, cluster, recipe)
    return seconds


def _layer(shape: ModelShape, layout: Layout, cluster: Cluster, recipe: Recipe) -> float:
    work = layer(Slice(cluster.gpu, shape, layout, recipe))
    computed = work.forward.seconds + work.backward.seconds + work.again.seconds
    return computed + layer_seconds(shape, layout, cluster).total
