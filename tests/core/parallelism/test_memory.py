"""The published formulas, to every printed digit."""

from dataclasses import replace
from fractions import Fraction

import pytest

from platform_core.jobs.transformer import Recompute
from platform_core.parallelism.fitting import fit
from platform_core.parallelism.layout import MEGATRON, MODERN, Layout
from platform_core.parallelism.memory import (
    dense_layers_of,
    expert_parameters,
    fullest,
    in_flight,
    layer_activations,
    layers_of,
    memory,
    model_states,
    stage_parameters,
)
from platform_core.parallelism.plan import memory_by_stage
from tests.core.parallelism.shapes import GPT_3, LATENT, LLAMA_8B, MIXTRAL, SMALL, a100, h100

NONE, SELECTIVE, FULL = Recompute.NONE, Recompute.SELECTIVE, Recompute.FULL


@pytest.mark.parametrize(("zero", "gigabytes"), [(0, "120"), (1, "31.4"), (2, "16.6"), (3, "1.9")])
def test_zero_shards_model_states_as_in_figure_1_of_its_paper(zero: int, gigabytes: str) -> None:
    """Rajbhandari et al. 2020: 7.5 B parameters, 64 ranks, 16 bytes a parameter."""
    total = sum(model_states(7_500_000_000, 64, zero, gradient_bytes=2))
    assert f"{total / 1e9:.{1 if '.' in gigabytes else 0}f}" == gigabytes


def test_megatron_keeps_18_bytes_a_parameter_and_6_plus_12_shared_out() -> None:
    parameters = 96 * 10**9
    assert sum(model_states(parameters, 1, 0, gradient_bytes=4)) == 18 * parameters
    assert sum(model_states(parameters, 8, 1, gradient_bytes=4)) == (6 + Fraction(12, 8)) * parameters


@pytest.mark.parametrize("tensor", [1, 2, 8])
@pytest.mark.parametrize("micro_batch", [1, 4])
@pytest.mark.parametrize(
    ("sequence_parallel", "recompute", "replicated", "split", "core"),
    [
        (False, NONE, 10, 24, True),
        (True, NONE, 0, 34, True),
        (False, SELECTIVE, 10, 24, False),
        (True, SELECTIVE, 0, 34, False),
        (False, FULL, 2, 0, False),
    ],
)
def test_a_layer_keeps_the_activations_of_table_2(
    tensor: int,
    micro_batch: int,
    sequence_parallel: bool,
    recompute: Recompute,
    replicated: int,
    split: int,
    core: bool,
) -> None:
    """Korthikanti et al. 2022, table 2: s b h (10 + 24/t + 5 a s/(h t)) and its relatives."""
    layout = Layout(tensor=tensor, micro_batch=micro_batch, sequence_parallel=sequence_parallel)
    s, b, h, a = GPT_3.sequence, micro_batch, GPT_3.hidden, GPT_3.heads
    attention = Fraction(5 * a * s, h * tensor) if core else 0
    expected = s * b * h * (replicated + Fraction(split, tensor) + attention)
    assert layer_activations(GPT_3, layout, MEGATRON, recompute) == expected


def test_attention_takes_80_bytes_of_gpt_3_that_selective_recompute_drops() -> None:
    """Korthikanti et al. 2022, section 5: 5 a s / h is 80 for GPT-3."""
    kept = [layer_activations(GPT_3, Layout(), MEGATRON, how) for how in (NONE, SELECTIVE)]
    assert (kept[0] - kept[1]) // (GPT_3.sequence * GPT_3.hidden) == 80


@pytest.mark.parametrize(("pipeline", "virtual"), [(8, 1), (8, 3), (8, 12), (16, 2)])
def test_the_first_stage_keeps_the_activations_of_the_whole_model_and_more_when_interleaved(
    pipeline: int, virtual: int
) -> None:
    """Korthikanti et al. 2022, section 4.2.3: L (1 + (p - 1)/(p v)), the factor only for v > 1."""
    layout = Layout(tensor=8, pipeline=pipeline, virtual=virtual, recompute=SELECTIVE)
    held = memory(GPT_3, layout, a100(16), MEGATRON, 1_536)
    factor = 1 + Fraction(pipeline - 1, pipeline * virtual) if virtual > 1 else 1
    one = layer_activations(GPT_3, layout, MEGATRON, SELECTIVE)
    assert held.activations == one * GPT_3.layers * factor


def test_later_stages_keep_fewer_micro_batches() -> None:
    layout = Layout(tensor=8, pipeline=8)
    assert [in_flight(layout, stage, 64)[0] for stage in range(8)] == [8, 7, 6, 5, 4, 3, 2, 1]
    assert in_flight(layout, 0, 3)[0] == 3
    held = memory_by_stage(GPT_3, layout, a100(8), MEGATRON, 64)
    assert [part.activations for part in held] == sorted((part.activations for part in held), reverse=True)


@pytest.mark.parametrize("pipeline", [1, 4, 5, 16])
def test_the_stages_hold_the_whole_model(pipeline: int) -> None:
    layout = Layout(pipeline=pipeline)
    total = sum(stage_parameters(GPT_3, layout, stage) for stage in range(pipeline))
    copy = GPT_3.vocabulary * GPT_3.hidden if pipeline > 1 else 0  # of the tied embedding
    assert total == GPT_3.parameters + copy
    assert sum(layers_of(GPT_3, layout, stage) for stage in range(pipeline)) == GPT_3.layers


@pytest.mark.parametrize(("pipeline", "virtual"), [(1, 1), (2, 1), (3, 1), (4, 1), (2, 2)])
def test_the_stages_of_a_model_with_dense_first_layers_hold_all_of_it(pipeline: int, virtual: int) -> None:
    layout = Layout(pipeline=pipeline, virtual=virtual)
    shape = replace(LATENT, dense_layers=3, tied_embeddings=False)
    assert sum(stage_parameters(shape, layout, stage) for stage in range(pipeline)) == shape.parameters
    assert sum(dense_layers_of(shape, layout, stage) for stage in range(pipeline)) == 3
    held = memory_by_stage(shape, layout, a100(1), MODERN, 8)
    assert fullest(shape, layout, a100(1), MODERN, 8)[1].total == max(part.total for part in held)


def test_every_tensor_rank_holds_the_matrices_of_the_latent_vectors() -> None:
    whole = stage_parameters(LATENT, Layout(), 0) - expert_parameters(LATENT, Layout(), 0)
    split = stage_parameters(LATENT, Layout(tensor=8), 0) - expert_parameters(LATENT, Layout(tensor=8), 0)
    latent = LATENT.layers * (LATENT.hidden * (256 + 128 + 32) + 256 + 128)
    assert split == latent - (latent - whole) // 8


def test_latent_attention_keeps_queries_keys_values_and_the_latent_vectors() -> None:
    """In bytes of a token, with flash attention, without recomputation: two of each element of queries, keys, values
    and output, four of the latent vectors (before and behind their norm), two of the rotary keys."""
    plain = replace(LATENT, kv_rank=0, query_rank=0, rope_width=0, value_width=0)
    kept, usual = (layer_activations(shape, Layout(), MODERN, NONE) for shape in (LATENT, plain))
    narrower = 2 * 2 * 8 * (96 - 64)  # values and output
    assert (kept - usual) // LATENT.sequence == 4 * (256 + 128) + 2 * 32 - narrower


def test_a_stage_with_one_layer_more_may_be_the_fullest() -> None:
    shape = replace(GPT_3, layers=97, vocabulary=1_024)
    stage, held = fullest(shape, Layout(tensor=8, pipeline=8, recompute=FULL), a100(8), MEGATRON, 64)
    every = memory_by_stage(shape, Layout(tensor=8, pipeline=8, recompute=FULL), a100(8), MEGATRON, 64)
    assert held == every[stage]
    assert held.total == max(part.total for part in every)


def test_expert_ranks_share_out_the_experts_only() -> None:
    alone, spread = Layout(data=8), Layout(data=8, expert=8)
    difference = stage_parameters(MIXTRAL, alone, 0) - stage_parameters(MIXTRAL, spread, 0)
    assert difference == MIXTRAL.layers * MIXTRAL.expert_layer_parameters * 7 // 8


def test_fsdp_shards_the_experts_over_the_ranks_that_hold_the_same_ones() -> None:
    held = memory(MIXTRAL, Layout(data=8, expert=8, zero=3), h100(1), MODERN, 8)
    dense = MIXTRAL.parameters - MIXTRAL.layers * MIXTRAL.expert_layer_parameters
    experts = MIXTRAL.layers * MIXTRAL.expert_layer_parameters // 8
    assert held.weights == 2 * dense // 8 + 2 * experts


def test_context_ranks_share_the_sequence_and_the_shards() -> None:
    whole = memory(LLAMA_8B, Layout(zero=3), h100(1), MODERN, 8)
    shared = memory(LLAMA_8B, Layout(context=4, zero=3), h100(1), MODERN, 8)
    assert whole.activations == 4 * shared.activations
    assert -(-whole.optimizer // 4) == shared.optimizer


def test_the_loss_over_a_large_vocabulary_needs_its_own_memory() -> None:
    small = replace(LLAMA_8B, vocabulary=1_024)
    held, less = (memory(shape, Layout(zero=3), h100(1), MODERN, 8) for shape in (LLAMA_8B, small))
    logits = LLAMA_8B.sequence * LLAMA_8B.vocabulary
    assert (held.head - 4 * LLAMA_8B.sequence * LLAMA_8B.hidden, held.working) == (4 * logits, 10 * logits)
    assert less.working < held.working


def test_an_offloaded_optimizer_is_not_on_the_gpu() -> None:
    assert memory(SMALL, Layout(offload=True), a100(1), MEGATRON, 8).optimizer == 0


def test_a_layout_that_does_not_fit_says_what_would_make_it_fit() -> None:
    layout = Layout(tensor=8, pipeline=8, sequence_parallel=True)
    refusal = fit(GPT_3, layout, a100(8), MEGATRON, 64).refusal
    assert refusal is not None
    assert refusal.sentence == "needs 83 GiB of 80; with selective recompute 60"
    assert (refusal.code, refusal.limit) == ("memory", 80 * 1024**3)
    assert fit(GPT_3, replace(layout, recompute=SELECTIVE), a100(8), MEGATRON, 64).refusal is None


def test_a_model_that_no_remedy_saves_says_only_what_it_needs() -> None:
    refusal = fit(GPT_3, Layout(), a100(1), MEGATRON, 8).refusal
    assert refusal is not None
    assert refusal.sentence.endswith("GiB of 80")
