"""The planner's answer for people: ranked plans in words and numbers, why others do not fit, and how it scales."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from platform_core.parallelism.calibration import Calibration
from platform_core.parallelism.plan import Plan, Run, room, run_of, title
from platform_core.parallelism.request import PlanRequest
from platform_core.parallelism.search import Answer, search
from platform_core.units import format_duration_ms, format_micro_dollars, plural

PLANS = 8
MOST_SCALED = 4_096
_LIMITS = {
    "compute": "computation",
    "recompute": "recomputation: it has too little memory to keep activations",
    "ends": "embedding, logits and loss",
    "launch": "the launch of kernels: they are small; raise the micro-batch or compile",
    "bubble": "the pipeline bubble: too few micro-batches for its stages",
    "tensor": "tensor-parallel communication",
    "context": "context-parallel communication",
    "expert": "expert-parallel communication",
    "stages": "communication between pipeline stages",
    "data": "data-parallel communication",
    "optimizer": "the optimizer",
}


@dataclass(frozen=True, slots=True)
class Ranked:
    plan: Plan
    title: str
    limited_by: str  # in words
    run: Run | None


@dataclass(frozen=True, slots=True)
class Refused:
    """A layout that would be faster than the first plan, and why it does not fit."""

    title: str
    micro_batch: int
    sentence: str


@dataclass(frozen=True, slots=True)
class Advice:
    parameters: int
    active_parameters: int
    sentence: str
    plans: tuple[Ranked, ...]  # from the fastest on
    refusal: str  # why there is no plan; ""
    too_large: tuple[Refused, ...]  # the nearest to fitting first
    looked_at: int
    pruned: int
    calibration: Calibration


@dataclass(frozen=True, slots=True)
class ScalePoint:
    gpus: int
    title: str
    tokens_per_second: int
    mfu: float
    efficiency: float  # tokens a second and GPU, relative to the best of the curve


def advise(
    request: PlanRequest, price_micro_dollars: int = 0, calibration: Calibration | None = None
) -> Advice:
    """`price_micro_dollars`: of one GPU and hour; 0 is not known."""
    shape = request.shape()
    answer = search(
        shape, request.cluster(), request.recipe, request.global_batch, keep=PLANS, calibration=calibration
    )
    ranked = tuple(_ranked(plan, request, price_micro_dollars) for plan in answer.plans)
    return Advice(
        shape.parameters,
        shape.active_parameters,
        _sentence(request, answer, ranked),
        ranked,
        _why_none(answer),
        tuple(
            Refused(title(layout), layout.micro_batch, refusal.sentence)
            for layout, refusal in answer.too_large
        ),
        answer.looked_at,
        answer.pruned,
        calibration or Calibration(),
    )


def scale_counts(request: PlanRequest) -> tuple[int, ...]:
    """8, 16, … 4,096 GPUs."""
    first = min(8, request.gpus_per_node)
    return tuple(first << power for power in range(MOST_SCALED.bit_length()) if first << power <= MOST_SCALED)


def scale_point(request: PlanRequest, gpus: int, calibration: Calibration | None = None) -> ScalePoint | None:
    """The fastest plan on so many GPUs, where one fits. The batch stays the same (strong scaling)."""
    found = search(
        request.shape(), request.cluster(gpus), request.recipe, request.global_batch, keep=1, calibration=calibration
    )  # fmt: skip
    if not found.plans or found.offloaded:
        return None
    plan = found.plans[0]
    return ScalePoint(gpus, title(plan.layout), plan.tokens_per_second, plan.mfu, 1.0)


def with_efficiency(points: Sequence[ScalePoint]) -> tuple[ScalePoint, ...]:
    best = max((point.tokens_per_second / point.gpus for point in points), default=1.0)
    return tuple(replace(point, efficiency=point.tokens_per_second / point.gpus / best) for point in points)


def _why_none(answer: Answer) -> str:
    if answer.plans or answer.refusal is None:
        return ""
    if not answer.too_large:
        return answer.refusal.sentence
    nearest = answer.too_large[0].layout
    return f"{title(nearest)} with micro-batches of {nearest.micro_batch} {answer.refusal.sentence}"


def _ranked(plan: Plan, request: PlanRequest, price: int) -> Ranked:
    run = None
    if request.tokens:
        run = run_of(plan, request.tokens, price, request.global_batch * request.sequence)
    return Ranked(plan, title(plan.layout), _LIMITS[plan.limited_by], run)


def _with_room(ranked: tuple[Ranked, ...]) -> str:
    """The fastest plan that fits wherever in its band it lies."""
    roomy = next((other for other in ranked if not other.plan.is_tight), None)
    if roomy is None:
        return f"none of the {len(ranked)} fastest layouts surely fits"
    slower = roomy.plan.step_ms / ranked[0].plan.step_ms - 1
    micro = f"micro-batches of {roomy.plan.layout.micro_batch}"
    return f"{roomy.title} with {micro} fits, {slower:.0%} slower"


def _sentence(request: PlanRequest, answer: Answer, ranked: tuple[Ranked, ...]) -> str:
    where = f"{plural(request.gpus, 'GPU')} of {request.gpu_type}"
    if not ranked:
        return f"It does not fit on {where}."
    best = ranked[0]
    verdict = "may not fit" if best.plan.is_tight else "fits"
    fits = f"It {verdict} on {where} with {best.title}"
    if answer.offloaded:
        fits += ", only with the optimizer in the memory of the hosts"
    pace = f"{best.plan.tokens_per_second:,} tokens/s, MFU {best.plan.mfu:.0%}, {room(best.plan)}"
    text = f"{fits}: {pace} a GPU"
    if best.run:
        text += f"; {format_duration_ms(best.run.duration_ms)}"
        if best.run.cost_micro_dollars:
            text += f", {format_micro_dollars(best.run.cost_micro_dollars)}"
    if best.plan.is_tight:
        text += f"; {_with_room(ranked)}"
    simplest = answer.simplest
    if simplest is not None and title(simplest.layout) != best.title:
        return f"{text}. {title(simplest.layout)} is as fast within 2 % and simpler."
    return f"{text}."
