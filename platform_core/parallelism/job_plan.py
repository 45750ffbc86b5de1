"""What the planner says of a job: of the layout in its job file, or of the best one where the file names none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from platform_core.jobs.definition import JobSpec
from platform_core.jobs.parallel import Parallel
from platform_core.jobs.transformer import Transformer
from platform_core.parallelism.calibration import Calibration
from platform_core.parallelism.fitting import fit
from platform_core.parallelism.hardware import Cluster
from platform_core.parallelism.layout import MODERN, Layout, Recipe, refusals
from platform_core.parallelism.model_shape import ModelShape
from platform_core.parallelism.plan import Plan, plan_of, room, run_of, title
from platform_core.parallelism.request import shape_of
from platform_core.parallelism.search import search
from platform_core.units import format_bytes, format_duration_ms, format_micro_dollars, plural


@dataclass(frozen=True, slots=True)
class Estimate:
    """`sentence`: whether it fits, and how long and dear the whole training is; `remedy`: what would fit."""

    fits: bool | None  # None: not known, or only where memory is near the lower end of its band
    sentence: str
    plan: Plan | None
    remedy: str = ""


class Training(Protocol):
    """What of a job file the planner looks at."""

    @property
    def transformer(self) -> Transformer: ...
    @property
    def parallel(self) -> Parallel: ...
    @property
    def num_gpus(self) -> int: ...


def shape_of_job(spec: Training) -> ModelShape | None:
    """None where the job file has no `transformer`."""
    asked = spec.transformer
    return shape_of(asked, asked.sequence) if asked.is_given and asked.sequence else None


def layout_of(spec: Training, gpus: int) -> Layout | None:
    """Of `parallel`, with so many GPUs; None where the script decides, which is on more than one GPU without it."""
    parallel, asked = spec.parallel, spec.transformer
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


def predict(spec: Training, gpus: int, cluster: Cluster) -> Plan | None:
    """Uncalibrated, as it is compared with what is measured; None where nothing can be said."""
    shape, layout, asked = shape_of_job(spec), layout_of(spec, gpus), spec.transformer
    if shape is None or layout is None or refusals(shape, layout, cluster, asked.global_batch):
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
            return _estimate(spec, plan, where, price)
        why = answer.refusal.sentence if answer.refusal else "no layout fits"
        return Estimate(False, f"does not fit on {where}: {why}", None, _more(spec, shape, cluster))
    for refusal in refusals(shape, layout, cluster, batch):
        return Estimate(False, f"cannot run on {where}: {refusal.sentence}", None)
    if refused := fit(shape, layout, cluster, recipe, batch).refusal:
        sentence = f"does not fit on {where} with {title(layout)}: {refused.sentence}"
        return Estimate(False, sentence, None, _other(spec, shape, cluster))
    plan = plan_of(shape, layout, cluster, recipe, batch, calibration)
    return _estimate(spec, plan, where, price)


def recipe_of(asked: Transformer) -> Recipe:
    return replace(MODERN, precision=asked.precision)


def _estimate(spec: JobSpec, plan: Plan, where: str, price: int) -> Estimate:
    """Whether it fits is not known where only a part of the band does."""
    verdict = f"{{}} on {where} with {title(plan.layout)}"
    if not plan.is_tight:
        return Estimate(True, _fits(spec, plan, verdict.format("fits"), price), plan)
    tight = f"{verdict.format('may not fit')}, which needs {room(plan)} a GPU"
    return Estimate(None, _fits(spec, plan, tight, price), plan)


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
