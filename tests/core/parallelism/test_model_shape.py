"""Parameters and FLOPs, from numbers and from published configurations."""

from dataclasses import replace
from fractions import Fraction

import pytest

from platform_core.parallelism.model_shape import ModelShape, gpt
from tests.core.parallelism.shapes import GPT_3, LATENT, LLAMA_8B, MIXTRAL


@pytest.mark.parametrize(
    ("layers", "hidden", "heads"), [(30, 3_072, 32), (96, 12_288, 96), (128, 25_600, 160)]
)
def test_a_gpt_has_the_parameters_of_the_published_formula(layers: int, hidden: int, heads: int) -> None:
    """12 L h^2 (1 + 13/(12 h)) + V h + s h (Narayanan et al. 2021, equation 2); it leaves out the final norm."""
    shape = gpt(layers, hidden, heads, 2_048, 51_200)
    formula = 12 * layers * hidden**2 * (1 + Fraction(13, 12 * hidden)) + (51_200 + 2_048) * hidden
    assert shape.parameters - shape.norm_parameters == formula


def test_published_models_have_their_exact_parameter_counts() -> None:
    assert gpt(12, 768, 12, 1_024, 50_257).parameters == 124_439_808  # GPT-2
    assert LLAMA_8B.parameters == 8_030_261_248
    assert MIXTRAL.parameters == 46_702_792_704


def test_a_token_passes_only_its_experts() -> None:
    assert round(MIXTRAL.active_parameters / 1e9, 1) == 12.9
    assert LLAMA_8B.active_parameters == LLAMA_8B.parameters


def test_a_step_with_full_recomputation_has_the_flops_of_the_published_formula() -> None:
    """96 B s L h^2 (1 + s/(6 h) + V/(16 L h)) (Narayanan et al. 2021, equation 3)."""
    s, layers, h, v = GPT_3.sequence, GPT_3.layers, GPT_3.hidden, GPT_3.vocabulary
    formula = 96 * s * layers * h**2 * (1 + Fraction(s, 6 * h) + Fraction(v, 16 * layers * h))
    assert GPT_3.flops(passes=4) == formula


def test_a_step_without_recomputation_has_three_forward_passes() -> None:
    """72 B L s h^2 (1 + s/(6 h) + V/(12 h L)) (Korthikanti et al. 2022, equation 7)."""
    s, layers, h, v = GPT_3.sequence, GPT_3.layers, GPT_3.hidden, GPT_3.vocabulary
    assert GPT_3.flops() == 72 * layers * s * h**2 * (1 + Fraction(s, 6 * h) + Fraction(v, 12 * h * layers))


def test_latent_attention_has_the_parameters_and_flops_of_its_matrices() -> None:
    """DeepSeek-AI 2024 (arXiv 2405.04434), section 2.1.1 to 2.1.3: W_DQ, W_UQ and W_QR, W_DKV and W_KR, W_UK and W_UV,
    W_O, and a norm over each latent vector."""
    matrices = (
        1_024 * 256, 256 * 8 * 64, 256 * 8 * 32, 1_024 * 128, 1_024 * 32, 128 * 8 * 64, 128 * 8 * 64, 8 * 64 * 1_024
    )  # fmt: skip
    assert LATENT.attention_parameters == sum(matrices) + 256 + 128
    expert = 3 * 1_024 * 256
    mixed = LATENT.attention_parameters + 2 * 1_024 + 1_024 * 16 + 3 * 1_024 * 512 + 16 * expert
    dense = LATENT.attention_parameters + 2 * 1_024 + 3 * 1_024 * 3_072
    assert LATENT.block_parameters == 3 * mixed + dense
    assert LATENT.parameters - LATENT.active_parameters == 3 * 14 * expert
    passed = (
        4 * sum(matrices) + 3 * (1_024 * 16 + 3 * 1_024 * (512 + 2 * 256)) + 3 * 1_024 * 3_072 + 1_024 * 8_192
    )
    scores = 4 * 8 * (96 + 64) * 512
    assert LATENT.flops() == 6 * 512 * (passed + scores)


@pytest.mark.parametrize("window", [1, 7, 64, 100])
def test_a_window_counts_the_pairs_of_tokens_in_it_as_the_whole_matrix_counts_all(window: int) -> None:
    """A layer without a window counts s^2 for its s (s + 1)/2 pairs, twice as many but for the s of the diagonal."""
    shape = replace(gpt(4, 64, 4, 64, 512), window=window, full_layers=1)
    seen = sum(min(window, token + 1) for token in range(64))
    per_layer = 2 * seen - min(window, 64)
    assert shape.attended == 3 * per_layer + 64**2
    whole = replace(shape, window=0, full_layers=0)
    saved = 3 * 2 * (4 * 64**2 - shape.attended) * (64 + 64)
    assert whole.flops() - shape.flops() == saved
    assert (saved == 0) == (window >= 64)


def test_without_a_query_rank_queries_come_from_the_hidden_state() -> None:
    plain = replace(LATENT, query_rank=0)
    difference = LATENT.attention_parameters - plain.attention_parameters
    assert difference == 1_024 * 256 + 256 * 8 * 96 + 256 - 1_024 * 8 * 96


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"layers": 0}, "layers is 0; it must be at least 1"),
        ({"heads": 7}, "hidden 1024 is not a multiple of 7 heads; state head_width"),
        ({"kv_heads": 3}, "8 heads cannot share 3 key-value heads evenly"),
        ({"experts": 4, "experts_per_token": 5}, "a token cannot pass 5 of 4 experts"),
        ({"ffn": -1}, "ffn is -1; it must not be negative"),
        ({"dense_layers": 1}, "dense_layers is 1; only a mixture of experts has layers without them"),
        (
            {"dense_layers": 4, "experts": 8, "experts_per_token": 2},
            "dense_layers is 4 of 4 layers, which leaves none for the experts",
        ),
        ({"full_layers": 1}, "full_layers is 1; without a window all layers see the whole sequence"),
        (
            {"window": 64, "full_layers": 4},
            "full_layers is 4 of 4 layers, which leaves none for the window",
        ),
        (
            {"query_rank": 64},
            "kv_rank is missing; query_rank and rope_width belong to latent attention, which has one",
        ),
        (
            {"kv_rank": 64},
            "head_width is missing; latent attention needs it: the rotary part of a head and the rest",
        ),
        (
            {"kv_rank": 64, "head_width": 32, "rope_width": 32},
            "rope_width is 32, which leaves nothing of a head of 32",
        ),
        (
            {"kv_rank": 64, "head_width": 32, "kv_heads": 2},
            "kv_heads is 2; in latent attention all 8 heads have keys of their own",
        ),
    ],
)
def test_an_impossible_shape_is_refused_with_its_numbers(change: dict[str, int], sentence: str) -> None:
    numbers = {"layers": 4, "hidden": 1_024, "heads": 8, "sequence": 1_024, "vocabulary": 8_192}
    with pytest.raises(ValueError, match=f"^{sentence}$"):
        ModelShape(**{**numbers, **change})
