"""Whatever model and cluster somebody asks about, there is a plan or a sentence that says why not."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from hypothesis import given, settings
from hypothesis import strategies as st

from platform_core.parallelism.hardware import GPUS, Cluster
from platform_core.parallelism.layout import MODERN
from platform_core.parallelism.model_shape import ModelShape
from platform_core.parallelism.search import Answer, search
from platform_core.parallelism.search_space import Limits

FEW = Limits(micro_batches=(1, 4), virtual=(1, 2))


@st.composite
def models(draw: st.DrawFn) -> ModelShape:
    layers, groups = draw(st.integers(1, 40)), draw(st.sampled_from([1, 2, 3, 8]))
    heads, experts = groups * draw(st.sampled_from([1, 2, 4])), draw(st.sampled_from([0, 0, 3, 16]))
    shape = ModelShape(
        layers=layers, hidden=heads * draw(st.sampled_from([24, 64, 128])), heads=heads, kv_heads=groups,
        sequence=draw(st.sampled_from([1, 77, 1_024, 16_384])), vocabulary=draw(st.integers(1, 200_000)),
        ffn=draw(st.sampled_from([0, 96, 4_096])), gated=draw(st.booleans()), biases=draw(st.booleans()),
        tied_embeddings=draw(st.booleans()), learned_positions=draw(st.booleans()), experts=experts,
        experts_per_token=draw(st.integers(1, experts)) if experts else 0,
        shared_ffn=draw(st.sampled_from([0, 512])) if experts else 0,
        dense_layers=draw(st.integers(0, layers - 1)) if experts else 0,
    )  # fmt: skip
    if groups != heads or draw(st.booleans()):
        return shape
    return replace(shape, head_width=96, kv_rank=64, query_rank=draw(st.sampled_from([0, 32])), rope_width=32)


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    gpu, each = GPUS[draw(st.sampled_from(sorted(GPUS)))], draw(st.sampled_from([1, 3, 4, 8]))
    rate = draw(st.sampled_from([1e8, 100e9]))
    leaf, over = draw(st.sampled_from([0, 1, 2])), draw(st.sampled_from([1.0, 8.0]))
    return Cluster(gpu, draw(st.integers(1, 5)), each, rate, leaf=leaf, oversubscription=over)


def best(answer: Answer) -> float:
    """Seconds of the fastest plan; one that offloads its optimizer is none: it is looked for only without another."""
    return answer.plans[0].step.total if answer.plans and not answer.offloaded else inf


@settings(max_examples=60, deadline=None)
@given(models(), clusters(), st.integers(1, 97))
def test_there_is_a_plan_or_a_reason(shape: ModelShape, cluster: Cluster, batch: int) -> None:
    answer = search(shape, cluster, MODERN, batch, FEW, keep=3)
    assert answer.plans or (answer.refusal is not None and answer.refusal.sentence)
    for plan in answer.plans:
        assert plan.memory.total <= cluster.gpu.memory_bytes
        assert plan.layout.gpus == cluster.gpus
        assert all(seconds >= 0 for _, seconds in plan.step.parts)
        assert 0 < plan.step.total < inf
        assert 0 < plan.mfu < 1


@settings(max_examples=40, deadline=None)
@given(models(), clusters(), st.integers(1, 97), st.integers(1, 8))
def test_more_memory_or_a_faster_network_never_makes_the_best_plan_slower(
    shape: ModelShape, cluster: Cluster, batch: int, times: int
) -> None:
    before = best(search(shape, cluster, MODERN, batch, FEW, keep=1))
    larger = replace(cluster, gpu=replace(cluster.gpu, memory_bytes=times * cluster.gpu.memory_bytes))
    assert best(search(shape, larger, MODERN, batch, FEW, keep=1)) <= before
    wider = replace(cluster, network_rate=times * cluster.network_rate)
    assert best(search(shape, wider, MODERN, batch, FEW, keep=1)) <= before * (1 + 1e-9)
