"""The fastest plans, without looking at all of them."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from platform_core.parallelism.calibration import Calibration
from platform_core.parallelism.fitting import fit
from platform_core.parallelism.hardware import GPUS, Cluster
from platform_core.parallelism.layout import MEGATRON, MODERN, Layout, Recipe
from platform_core.parallelism.model_shape import ModelShape, gpt
from platform_core.parallelism.plan import run_of, title
from platform_core.parallelism.search import order, search
from platform_core.parallelism.search_space import Limits, layouts
from platform_core.parallelism.step_time import step_time
from tests.core.parallelism.shapes import GPT_3, LLAMA_8B, MIXTRAL, SMALL, a100, h100

FEW = Limits(micro_batches=(1, 2, 4), virtual=(1, 2))


def exhaustive(shape: ModelShape, cluster: Cluster, recipe: Recipe, batch: int, keep: int) -> list[Layout]:
    fitting = [
        layout
        for layout in layouts(shape, cluster, batch, FEW)
        if fit(shape, layout, cluster, recipe, batch).refusal is None
    ]

    def key(layout: Layout) -> tuple[float, tuple[int, ...]]:
        return step_time(shape, layout, cluster, recipe, batch).total, order(layout)

    return sorted(fitting, key=key)[:keep]


@settings(max_examples=20, deadline=None)
@given(
    layers=st.integers(2, 6),
    hidden=st.sampled_from([1_024, 4_096, 8_192]),
    experts=st.sampled_from([0, 4]),
    dense_layers=st.sampled_from([0, 1]),
    latent=st.booleans(),
    sequence=st.sampled_from([1_024, 8_192]),
    nodes=st.sampled_from([1, 2]),
    batch=st.sampled_from([8, 24, 32]),
    recipe=st.sampled_from([MODERN, MEGATRON]),
    keep=st.integers(1, 8),
)
def test_the_plans_are_those_of_an_exhaustive_search(
    layers: int, hidden: int, experts: int, dense_layers: int, latent: bool, sequence: int, nodes: int, batch: int,
    recipe: Recipe, keep: int,
) -> None:  # fmt: skip
    shape = replace(
        SMALL,
        layers=layers,
        hidden=hidden,
        sequence=sequence,
        experts=experts,
        experts_per_token=min(2, experts),
        dense_layers=dense_layers if experts else 0,
    )
    if latent:
        shape = replace(shape, head_width=192, kv_rank=128, query_rank=256, rope_width=64, value_width=128)
    cluster = Cluster(GPUS["a100-40gb"], nodes, 8)
    plans = search(shape, cluster, recipe, batch, FEW, keep).plans
    assert [plan.layout for plan in plans] == exhaustive(shape, cluster, recipe, batch, keep)


LLAMA_70B = replace(LLAMA_8B, layers=80, hidden=8_192, heads=64, ffn=28_672)


def test_310_billion_parameters_on_512_gpus_are_planned_by_looking_at_few_layouts() -> None:
    shape = gpt(96, 16_384, 128, 4_096, 51_200)
    answer = search(shape, h100(64), MODERN, 2_048)
    assert len(answer.plans) == 10
    assert answer.looked_at < answer.pruned
    first = answer.plans[0]
    assert first.memory.total <= 80 * 1024**3
    assert 0.4 < first.mfu < 0.65
    assert first.layout.gpus == 512
    assert [plan.step_ms for plan in answer.plans] == sorted(plan.step_ms for plan in answer.plans)


def test_a_small_model_needs_nothing_but_data_parallelism() -> None:
    answer = search(SMALL, a100(1), MODERN, 1_024, keep=20)
    simplest = answer.simplest
    assert simplest is not None
    assert title(simplest.layout) == "DDP 8"
    assert simplest.step_ms <= 1.02 * answer.plans[0].step_ms + 1


def test_a_model_too_large_for_one_gpu_is_sharded() -> None:
    first = search(LLAMA_8B, h100(1), MODERN, 16).plans[0]
    assert first.layout.zero or first.layout.tensor > 1
    assert first.layout.offload is False


def test_what_only_fits_without_its_optimizer_is_offloaded() -> None:
    answer = search(replace(GPT_3, layers=30), a100(1), MODERN, 8)
    assert answer.offloaded
    assert all(plan.layout.offload for plan in answer.plans)


def test_what_does_not_fit_at_all_says_what_it_needs() -> None:
    answer = search(GPT_3, a100(1), MODERN, 8)
    assert answer.plans == ()
    assert answer.simplest is None
    assert answer.refusal is not None
    assert answer.refusal == answer.too_large[0].refusal
    needed = [each.refusal.needed for each in answer.too_large]
    assert needed == sorted(needed)
    assert "GiB of 80" in answer.refusal.sentence


def test_layouts_that_would_be_faster_if_they_fitted_say_what_would_make_them_fit() -> None:
    answer = search(LLAMA_70B, h100(32), MODERN, 1_024)
    assert answer.refusal is None
    assert 0 < len(answer.too_large) <= 5
    for layout, refusal in answer.too_large:
        assert step_time(LLAMA_70B, layout, h100(32), MODERN, 1_024).total < answer.plans[0].step.total
        assert fit(LLAMA_70B, layout, h100(32), MODERN, 1_024).refusal == refusal
    assert "; with " in answer.too_large[0].refusal.sentence


def test_gpus_that_nothing_divides_say_how_many_can_be_used() -> None:
    answer = search(SMALL, Cluster(GPUS["a100-80gb"], 1, 13), MODERN, 64)
    assert answer.refusal is not None
    assert answer.refusal.sentence == (
        "no layout divides 13 GPUs over a batch of 64, 8 heads and 4 layers; 12 GPUs can be used"
    )
    assert search(SMALL, Cluster(GPUS["a100-80gb"], 1, 12), MODERN, 64).plans


def test_a_batch_that_no_micro_batch_divides_is_refused_on_any_number_of_gpus() -> None:
    answer = search(SMALL, a100(1), MODERN, 7, Limits(micro_batches=(2,)))
    assert answer.plans == ()
    assert answer.refusal is not None
    assert answer.refusal.sentence == "no layout divides 8 GPUs over a batch of 7, 8 heads and 4 layers"


def test_experts_are_spread_where_that_is_faster() -> None:
    answer = search(MIXTRAL, h100(4), MODERN, 64)
    assert answer.plans
    assert any(layout.expert == 8 for layout in layouts(MIXTRAL, h100(4), 64, Limits()))


def test_the_limits_keep_layouts_out() -> None:
    limits = Limits(most_tensor=2, most_pipeline=1, micro_batches=(1,))
    every = list(layouts(LLAMA_8B, h100(2), 32, limits))
    assert {layout.tensor for layout in every} == {1, 2}
    assert {(layout.pipeline, layout.micro_batch) for layout in every} == {(1, 1)}


def test_a_plan_has_its_time_with_band_its_cost_and_its_days() -> None:
    calibrated = Calibration(1.1, 0.95, 1.08, 12)
    plain = search(LLAMA_8B, h100(1), MODERN, 16).plans[0]
    plan = search(LLAMA_8B, h100(1), MODERN, 16, calibration=calibrated).plans[0]
    assert plan.layout == plain.layout
    assert abs(plan.step_ms - 1.1 * plain.step_ms) < 2
    assert plan.low_ms < plan.step_ms < plan.high_ms
    assert 0 <= plan.bubble_share < 1
    assert plan.limited_by == "compute"
    tokens_per_step = 16 * LLAMA_8B.sequence
    run = run_of(plan, 10 * tokens_per_step + 1, 2_000_000, tokens_per_step)
    assert (run.steps, run.duration_ms) == (11, 11 * plan.step_ms)
    assert run.cost_micro_dollars == -(-run.duration_ms * 8 * 2_000_000 // 3_600_000)
