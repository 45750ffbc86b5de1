"""What the planner says of a job: of the layout in its job file, or of the best one where the file names none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from platform_core.cluster.snapshot import PlaceStep
from platform_core.jobs.definition import JobSpec
from platform_core.jobs.parallel import Parallel
from platform_core.jobs.transformer import Transformer
from platform_core.parallelism.calibration import Calibration
from platform_core.parallelism.fitting import fit
from platform_core.parallelism.hardware import Cluster
from platform_core.parallelism.layout import MODERN, Layout, Recipe, refusals
from platform_core.parallelism.model_shape import ModelShape
from platform_core.parallelism.plan import Plan, plan_of, run_of, title
from platform_core.parallelism.request import shape_of
from platform_core.parallelism.search import search
from platform_core.units import format_bytes, format_duration_ms, format_micro_dollars, plural


@dataclass(frozen=True, slots=True)
class Estimate:
    """`sentence`: whether it fits, and how long and dear the whole training is; `remedy`: what would fit."""

    fits: bool | None  # None: not known
    sentence: str
    plan: Plan | None
    remedy: str = ""


def shape_of_job(spec: JobSpec) -> ModelShape | None:
    """None where the job file has no `transformer`."""
    return _shape(spec.transformer)


def _shape(asked: Transformer) -> ModelShape | None:
    return shape_of(asked, asked.sequence) if asked.is_given and asked.sequence else None


def layout_of(spec: JobSpec, gpus: int) -> Layout | None:
    """Of `parallel`, with so many GPUs; None where the script decides, which is on more than one GPU without it."""
    return _layout(spec.parallel, spec.transformer, gpus)


def _layout(parallel: Parallel, asked: Transformer, gpus: int) -> Layout | None:
    if not parallel.is_given and gpus > 1:
        return None
    copies = max(1, gpus // parallel.copy)
    return Layout(
        data=copies * parallel.fsdp,
        tensor=parallel.tp,
        context=parallel.cp,
        pipeline=parallel.pp,
        virtual=asked.virtual if parallel.pp > 1 else 1,
        expert=parallel.ep,
        micro_batch=asked.micro_batch,
        zero=3 if parallel.fsdp > 1 else asked.zero,
        shard=parallel.fsdp if parallel.fsdp > 1 and copies > 1 else 0,
        sequence_parallel=parallel.sp,
        recompute=asked.recompute,
    )


def predict(spec: JobSpec, gpus: int, cluster: Cluster) -> Plan | None:
    """Uncalibrated, as it is compared with what is measured; None where nothing can be said."""
    return _predict(spec.transformer, spec.parallel, gpus, cluster)


def _predict(asked: Transformer, parallel: Parallel, gpus: int, cluster: Cluster) -> Plan | None:
    shape, layout = _shape(asked), _layout(parallel, asked, gpus)
    if shape is None or layout is None:
        return None
    if refusals(shape, layout, cluster, asked.global_batch):
        return None
    return plan_of(shape, layout, cluster, recipe_of(asked), asked.global_batch, Calibration())


def estimate(spec: JobSpec, cluster: Cluster, price: int, calibration: Calibration) -> Estimate | None:
    """`price`: micro-dollars of one GPU and hour, 0 where it is not known. None without a model shape."""
    shape = shape_of_job(spec)
    if shape is None:
        return None
    layout, recipe, batch = (
        layout_of(spec, spec.num_gpus),
        recipe_of(spec.transformer),
        spec.transformer.global_batch,
    )
    where = f"{spec.num_gpus} x {spec.gpu_type}"
    if layout is None:
        answer = search(shape, cluster, recipe, batch, keep=1, calibration=calibration)
        if answer.plans and not answer.offloaded:
            plan = answer.plans[0]
            return Estimate(
                True, _fits(spec, plan, f"fits on {where} with {title(plan.layout)}", price), plan
            )
        why = answer.refusal.sentence if answer.refusal else "no layout fits"
        return Estimate(False, f"does not fit on {where}: {why}", None, _more(spec, shape, cluster))
    for refusal in refusals(shape, layout, cluster, batch):
        return Estimate(False, f"cannot run on {where}: {refusal.sentence}", None)
    if refused := fit(shape, layout, cluster, recipe, batch).refusal:
        sentence = f"does not fit on {where} with {title(layout)}: {refused.sentence}"
        return Estimate(False, sentence, None, _other(spec, shape, cluster))
    plan = plan_of(shape, layout, cluster, recipe, batch, calibration)
    return Estimate(True, _fits(spec, plan, f"fits on {where} with {title(layout)}", price), plan)


def recipe_of(asked: Transformer) -> Recipe:
    return replace(MODERN, precision=asked.precision)


def _fits(spec: JobSpec, plan: Plan, sentence: str, price: int) -> str:
    asked = spec.transformer
    if not asked.tokens:
        return (
            f"{sentence}; {format_duration_ms(plan.step_ms)} a step, {format_bytes(plan.memory.total)} a GPU"
        )
    run = run_of(plan, asked.tokens, price, asked.global_batch * asked.sequence)
    cost = f", {format_micro_dollars(run.cost_micro_dollars)}" if run.cost_micro_dollars else ""
    return f"{sentence}; {format_duration_ms(run.duration_ms)}{cost}"


def _other(spec: JobSpec, shape: ModelShape, cluster: Cluster) -> str:
    """The fastest layout on as many GPUs, or else more of them."""
    answer = search(shape, cluster, recipe_of(spec.transformer), spec.transformer.global_batch, keep=1)
    if not answer.plans or answer.offloaded:
        return _more(spec, shape, cluster)
    plan = answer.plans[0]
    micro = f", micro-batches of {plan.layout.micro_batch}"
    return f"{title(plan.layout)}{micro} would fit: {format_bytes(plan.memory.total)} a GPU"


def _more(spec: JobSpec, shape: ModelShape, cluster: Cluster) -> str:
    """The fewest GPUs of the type, by doubling, on which something fits."""
    gpus = 2 * spec.num_gpus
    while gpus <= 64 * spec.num_gpus:
        wider = cluster.holding(gpus)
        if wider.gpus == gpus:
            answer = search(shape, wider, recipe_of(spec.transformer), spec.transformer.global_batch, keep=1)
            if answer.plans and not answer.offloaded:
                return f"{plural(gpus, 'GPU')} would do, with {title(answer.plans[0].layout)}"
        gpus *= 2
    return ""


MOST_SPREAD = 4  # times the fewest nodes


def place_steps(spec: JobSpec, node: Cluster) -> tuple[PlaceStep, ...]:
    """What a step takes on as few nodes as hold the job, on more of them and in more racks; the fastest first.

    Empty where the job file does not say what the planner needs. A part of a node has the same part of its network,
    because the others there need theirs. `node` has the oversubscription of the network beyond a rack.
    """
    if not spec.transformer.is_given or spec.num_gpus == 1:
        return ()
    return _place_steps(spec.transformer, spec.parallel, spec.num_gpus, node)


@lru_cache(maxsize=1_024)
def _place_steps(
    transformer: Transformer, parallel: Parallel, gpus: int, node: Cluster
) -> tuple[PlaceStep, ...]:
    fewest = node.holding(gpus).nodes
    steps: list[PlaceStep] = []
    for nodes in range(fewest, min(gpus, MOST_SPREAD * fewest) + 1):
        if gpus % nodes or gpus // nodes % parallel.tp:
            continue
        part = replace(node.holding(gpus // nodes), nodes=nodes)
        before = 0
        for racks in _rack_counts(nodes):
            cluster = replace(part, leaf=-(-nodes // racks) if racks > 1 else 0)
            plan = _predict(transformer, parallel, gpus, cluster)
            if plan is None:
                return ()
            step_us = max(before, round(plan.step.total * 1e6))  # more racks are never better
            if step_us == before:
                steps.pop()
            steps.append(PlaceStep(nodes, racks, step_us))
            before = step_us
    return tuple(sorted(steps, key=lambda step: (step.step_us, step.nodes, step.racks)))


def _rack_counts(nodes: int) -> list[int]:
    """1, 2, 4, … and as many as nodes."""
    return [*(1 << power for power in range(nodes.bit_length()) if 1 << power < nodes), nodes]


def planned_ms(spec: JobSpec, steps: Sequence[PlaceStep]) -> int:
    """The whole training on the fastest place; 0 where its tokens are not given."""
    asked = spec.transformer
    if not steps or not asked.tokens:
        return 0
    return -(-asked.tokens // (asked.global_batch * asked.sequence)) * steps[0].step_us // 1_000
