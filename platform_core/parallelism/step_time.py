"""Seconds of one training step, by part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from math import hypot

from platform_core.parallelism.communication import (
    DataSeconds,
    LayerSeconds,
    data_seconds,
    layer_seconds,
    stage_seconds,
    tied_embedding,
)
from platform_core.parallelism.hardware import PCIE_RATE, Cluster
from platform_core.parallelism.layer_time import (
    TENSOR_KERNELS,
    LayerWork,
    Slice,
    embedding,
    head,
    layer,
    optimizer_step,
)
from platform_core.parallelism.layout import Layout, Recipe
from platform_core.parallelism.memory import (
    dense_layers_of,
    expert_parameters,
    heaviest_stage,
    layers_of,
    stage_parameters,
)
from platform_core.parallelism.model_shape import ModelShape, first_layers

INTERFERENCE = 0.1  # of hidden communication comes back: it takes multiprocessors and memory bandwidth
HOST_ADAM_RATE = 20e9  # bytes/s of host memory that the CPU optimizer of one rank streams


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of the slowest rank. Communication: only what is not hidden behind computation."""

    compute: float  # layers, forward and backward
    recompute: float
    ends: float  # embedding, logits and loss
    launch: float  # the device waits for the host
    bubble: float
    tensor: float
    context: float
    expert: float
    stages: float
    data: float
    optimizer: float

    @property
    def parts(self) -> tuple[tuple[str, float], ...]:
        return tuple((part.name, float(getattr(self, part.name))) for part in fields(self))

    @property
    def total(self) -> float:
        return sum(seconds for _part, seconds in self.parts)

    def scaled(self, factor: float) -> StepTime:
        return StepTime(*(factor * seconds for _part, seconds in self.parts))


@dataclass(frozen=True, slots=True)
class _Kind:
    """A layer with experts, or one of the dense ones before them."""

    work: LayerWork
    sent: LayerSeconds

    @property
    def device(self) -> float:
        return self.forward + self.backward

    @property
    def forward(self) -> float:
        return self.work.forward.seconds + self.sent.total / 3

    @property
    def backward(self) -> float:
        return self.work.backward.seconds + self.work.again.seconds + self.sent.total * 2 / 3


@dataclass(frozen=True, slots=True)
class _Stage:
    """Seconds of one micro-batch on one stage. `layers`: how many of each kind."""

    layers: Sequence[tuple[int, _Kind]]
    ends: float
    device: float
    host: float
    sends: float

    def of(self, part: Callable[[_Kind], float]) -> float:
        return sum(count * part(kind) for count, kind in self.layers)

    @property
    def busy(self) -> float:
        return self.device + self.launch + self.sends

    @property
    def launch(self) -> float:
        """The forward pass may wait for the host while the backward pass keeps the device busy, so neither
        time hides the other wholly: the root of the sum of squares, which is the larger one where they are far
        apart."""
        return hypot(self.device, self.host) - self.device


def step_time(
    shape: ModelShape, layout: Layout, cluster: Cluster, recipe: Recipe, global_batch: int
) -> StepTime:
    """1F1B: m micro-batches through the slowest stage, filled and emptied through the others."""
    part = Slice(cluster.gpu, shape, layout, recipe)
    sent = stage_seconds(shape, layout, cluster)
    stages = _stages(part, cluster, sent)
    slowest = max(stages, key=lambda stage: stage.busy)
    count = layout.micro_batches(global_batch)
    idle = bubble([stage.busy for stage in stages], layout.virtual)
    if recipe.overlaps_stages:
        idle += 2 * sent * (layout.pipeline - 1)
    heaviest = heaviest_stage(shape, layout)
    moved = data_seconds(shape, layout, cluster, recipe)
    return StepTime(
        compute=count * slowest.of(lambda kind: kind.work.forward.seconds + kind.work.backward.seconds),
        recompute=count * slowest.of(lambda kind: kind.work.again.seconds),
        ends=count * slowest.ends,
        launch=count * slowest.launch,
        bubble=idle,
        tensor=count * slowest.of(lambda kind: kind.sent.tensor),
        context=count * slowest.of(lambda kind: kind.sent.context),
        expert=count * slowest.of(lambda kind: kind.sent.expert),
        stages=count * slowest.sends,
        data=_exposed(part, stages[heaviest], moved, count) + tied_embedding(shape, layout, cluster, recipe),
        optimizer=_update(part, heaviest),
    )


def bubble(busy: Sequence[float], virtual: int) -> float:
    """Idle seconds of the slowest stage while the others fill and empty the pipeline, from what each stage
    takes for one micro-batch: (p - 1)/(m v) of the ideal time where stages are equal (Narayanan et al. 2021,
    section 2.2)."""
    return (sum(busy) - max(busy)) / virtual


def _stages(part: Slice, cluster: Cluster, sent: float) -> Sequence[_Stage]:
    layout, recipe, shape = part.layout, part.recipe, part.shape
    first, last = embedding(part), head(part)
    rest = _kind(part, cluster)
    dense = _kind(replace(part, shape=first_layers(shape)), cluster) if shape.dense_layers else rest
    stages = []
    for number in range(layout.pipeline):
        without = dense_layers_of(shape, layout, number)
        layers = [(layers_of(shape, layout, number) - without, rest)] + (
            [(without, dense)] if without else []
        )
        ends, launched = 0.0, sum(count * _kernels(kind.work, layout) for count, kind in layers)
        if number == 0:
            ends, launched = ends + first.seconds, launched + first.kernels
        if number == layout.pipeline - 1:
            ends, launched = ends + last.seconds, launched + last.kernels
        device = sum(count * kind.device for count, kind in layers) + ends
        neighbours = 2 if layout.pipeline > 1 and not recipe.overlaps_stages else 0
        sends = neighbours * sent * layout.virtual
        stages.append(_Stage(layers, ends, device, launched * recipe.kernel_us * 1e-6, sends))
    return stages


def _kind(part: Slice, cluster: Cluster) -> _Kind:
    return _Kind(layer(part), layer_seconds(part.shape, part.layout, cluster))


def _kernels(work: LayerWork, layout: Layout) -> float:
    """That the host launches for one layer."""
    computed = work.forward.kernels + work.backward.kernels + work.again.kernels
    return computed + (TENSOR_KERNELS * layout.passes if layout.tensor > 1 else 0)


def _exposed(part: Slice, stage: _Stage, moved: DataSeconds, count: int) -> float:
    """Gradients and gathered weights that computation does not hide."""
    rounds = count if part.layout.zero >= 2 else 1
    if not part.recipe.overlaps_gradients:
        return moved.gather * 2 * count + moved.scatter * rounds + moved.finish
    layers = sum(number for number, _ in stage.layers)
    forward, backward = stage.of(lambda kind: kind.forward), stage.of(lambda kind: kind.backward)
    reduced = rounds * _hidden_behind(moved.scatter + moved.gather, backward, layers)
    gathered = count * _hidden_behind(moved.gather, forward, layers)
    return reduced + gathered + _hidden_behind(moved.finish, forward, layers)


def _hidden_behind(sent: float, computed: float, layers: int) -> float:
    """What is left of it: the surplus, the first or last layer that nothing hides, and the interference."""
    if not sent:
        return 0.0
    edge = sent / layers
    return max(edge, sent - computed) + INTERFERENCE * min(sent, computed)


def _update(part: Slice, stage: int) -> float:
    layout = part.layout
    experts = expert_parameters(part.shape, layout, stage)
    dense = stage_parameters(part.shape, layout, stage) - experts
    own = dense // layout.shards + experts // layout.expert_shards
    if layout.offload:
        return 6 * own / PCIE_RATE + 28 * own / HOST_ADAM_RATE
    return optimizer_step(part.gpu, own, part.recipe)
