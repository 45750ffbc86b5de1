"""Training speeds that others published, and what the planner says of the same layouts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from platform_core.jobs.transformer import Precision, Recompute
from platform_core.parallelism.fitting import fit
from platform_core.parallelism.hardware import Cluster, gpu_of
from platform_core.parallelism.layout import MEGATRON, MODERN, Kernels, Layout, Recipe
from platform_core.parallelism.memory import CONTEXT_BYTES
from platform_core.parallelism.model_shape import ModelShape, gpt
from platform_core.parallelism.step_time import step_time
from platform_core.units import GIB

LLAMA_8B = ModelShape(32, 4_096, 32, 8_192, 128_256, 8, 0, 14_336, True, False, False, False)
LLAMA_70B = replace(LLAMA_8B, layers=80, hidden=8_192, heads=64, ffn=28_672)
LLAMA_405B = replace(LLAMA_8B, layers=126, hidden=16_384, heads=128, ffn=53_248)
EAGER = replace(MODERN, kernels=Kernels.EAGER, head_traffic=30)
FLOAT8 = replace(MODERN, precision=Precision.FP8)


@dataclass(frozen=True, slots=True)
class Measurement:
    """`unit`: s (a step), tokens/s or TFLOP/s (of one GPU)."""

    source: str
    name: str
    shape: ModelShape
    layout: Layout
    cluster: Cluster
    recipe: Recipe
    global_batch: int
    unit: str
    value: float
    memory_gib: float = 0.0


def published() -> Iterator[dict[str, object]]:
    for case in (*_korthikanti(), *_torchtitan(), *_torchtitan_a100(), *_llama_3()):
        seconds = step_time(case.shape, case.layout, case.cluster, case.recipe, case.global_batch).total
        predicted = {
            "s": seconds,
            "tokens/s": case.global_batch * case.shape.sequence / seconds / case.layout.gpus,
            "TFLOP/s": case.global_batch * case.shape.flops() / seconds / case.layout.gpus / 1e12,
        }[case.unit]
        line: dict[str, object] = {
            "source": case.source,
            "case": case.name,
            "unit": case.unit,
            "published": case.value,
            "predicted": round(predicted, 2 if case.unit == "s" else None),
            "error": round(100 * (predicted / case.value - 1), 1),
        }
        if case.memory_gib:
            held = fit(case.shape, case.layout, case.cluster, case.recipe, case.global_batch).memory
            line |= {
                "memory_gib": case.memory_gib,
                "predicted_gib": round((held.total - CONTEXT_BYTES) / GIB, 1),
            }
        yield line


def _korthikanti() -> Iterator[Measurement]:
    """Korthikanti et al. 2022 (arXiv 2205.05198), tables 3 and 5: Selene, 8 x A100 80 GB and 8 x 200 Gb/s a
    node."""
    rows = (
        ("22 B", 48, 6_144, 64, 1, 1, 8, 4, 4, 1.42, 1.10),
        ("175 B", 96, 12_288, 96, 8, 3, 64, 64, 1, 18.13, 13.75),
        ("530 B", 105, 20_480, 128, 35, 3, 280, 280, 1, 49.05, 37.83),
        ("1 T", 128, 25_600, 160, 64, 1, 512, 512, 1, 94.42, 71.49),
    )
    for name, layers, hidden, heads, stages, virtual, gpus, batch, micro, full, selective in rows:
        shape = gpt(layers, hidden, heads, 2_048, 51_200)
        cluster = Cluster(gpu_of("a100-80gb"), gpus // 8, 8, 200e9)
        layout = Layout(
            tensor=8, pipeline=stages, virtual=virtual, micro_batch=micro, recompute=Recompute.FULL
        )
        better = replace(layout, recompute=Recompute.SELECTIVE, sequence_parallel=True)
        source = "Korthikanti 2022, table 5"
        yield Measurement(source, f"{name}, full", shape, layout, cluster, MEGATRON, batch, "s", full)
        yield Measurement(
            source, f"{name}, selective", shape, better, cluster, MEGATRON, batch, "s", selective
        )


def _torchtitan() -> Iterator[Measurement]:
    """torchtitan, benchmarks/llama3_h100_202412_torchtitan.md (arXiv 2410.06511), H100 of 96 GB at 500 W; memory is
    what the allocator has reserved. 405 B keeps whole weights and gradients on each stage, which is ZeRO 1 of ours, and
    its schedules differ by 1.28, which eight micro-batches explain."""
    source = "torchtitan"
    for gpus, eager, compiled, float8 in (
        (8, (5_762, 82.4), (6_667, 77.0), (8_532, 76.8)),
        (128, (5_605, 67.0), (6_514, 62.0), (8_380, 61.8)),
    ):
        layout = Layout(data=gpus, micro_batch=2, zero=3, recompute=Recompute.OPERATORS)
        for name, recipe, (speed, memory) in (
            ("eager", EAGER, eager),
            ("compiled", MODERN, compiled),
            ("float8", FLOAT8, float8),
        ):
            case = f"8 B, {gpus} GPUs, {name}"
            yield Measurement(
                source, case, LLAMA_8B, layout, _meta(gpus), recipe, 2 * gpus, "tokens/s", speed, memory
            )
    full = Layout(zero=3, recompute=Recompute.FULL)
    for data, context, speed, memory in (
        (8, 1, 3_890, 83.9),
        (4, 2, 2_540, 84.2),
        (2, 4, 1_071, 84.0),
        (1, 8, 548, 84.5),
    ):
        shape = replace(LLAMA_8B, sequence=32_768 * context)
        layout = replace(full, data=data, context=context)
        case = f"8 B, FSDP {data} x CP {context}"
        yield Measurement(source, case, shape, layout, _meta(8), FLOAT8, data, "tokens/s", speed, memory)
    layout = replace(full, data=32, tensor=8, micro_batch=16, sequence_parallel=True)
    for name, speed, memory in (("", 829, 71.9), (", asynchronous TP", 876, 67.6)):
        case = f"70 B, FSDP 32 x TP 8{name}"
        yield Measurement(source, case, LLAMA_70B, layout, _meta(256), FLOAT8, 512, "tokens/s", speed, memory)
    stages = replace(full, data=8, tensor=8, pipeline=8, zero=1, sequence_parallel=True)
    for name, virtual, speed, memory in (("1F1B", 1, 100, 82.5), ("interleaved", 2, 128, 72.7)):
        layout = replace(stages, virtual=virtual, micro_batch=4)
        case = f"405 B, {name}"
        yield Measurement(
            source, case, LLAMA_405B, layout, _meta(512), FLOAT8, 256, "tokens/s", speed, memory
        )
    for data, context, speed, memory in (
        (8, 1, 76, 75.3),
        (4, 2, 47, 75.9),
        (2, 4, 31, 77.1),
        (1, 8, 16, 84.9),
    ):
        shape = replace(LLAMA_405B, sequence=32_768 * context)
        layout = replace(stages, data=data, context=context)
        case = f"405 B, FSDP {data} x CP {context}"
        yield Measurement(
            source, case, shape, layout, _meta(512), FLOAT8, 8 * data, "tokens/s", speed, memory
        )


def _torchtitan_a100() -> Iterator[Measurement]:
    """docs/performance.md of torchtitan in 2024: FSDP on 64 A100. Its network is not stated: 800 Gb/s a node here."""
    layout = Layout(data=64, zero=3, recompute=Recompute.FULL)
    cluster = Cluster(gpu_of("a100-80gb"), 8)
    for name, shape, speed in (("8 B, 64 A100", LLAMA_8B, 2_973), ("70 B, 64 A100", LLAMA_70B, 331)):
        yield Measurement("torchtitan 2024", name, shape, layout, cluster, EAGER, 64, "tokens/s", speed)


def _meta(gpus: int) -> Cluster:
    return Cluster(gpu_of("h100-96gb"), gpus // 8, 8, 400e9)


def _llama_3() -> Iterator[Measurement]:
    """The Llama 3 Herd of Models (arXiv 2407.21783), table 4: H100 80 GB, 400 Gb/s a GPU."""
    for name, data, context, sequence, batch, speed in (
        ("8,192 GPUs", 64, 1, 8_192, 2_048, 430),
        ("16,384 GPUs", 128, 1, 8_192, 2_048, 400),
        ("16,384 GPUs, long", 8, 16, 131_072, 128, 380),
    ):
        shape = replace(LLAMA_405B, sequence=sequence)
        layout = Layout(data, 8, context, 16, 4, zero=1, sequence_parallel=True)
        cluster = Cluster(gpu_of("h100-80gb"), layout.gpus // 8, 8, 400e9)
        yield Measurement(
            "Llama 3, table 4", f"405 B, {name}", shape, layout, cluster, MODERN, batch, "TFLOP/s", speed
        )
