"""Parameters and FLOPs, from numbers and from published configurations."""

from fractions import Fraction

import pytest

from platform_core.parallelism.model_shape import ModelShape, from_config, gpt
from tests.core.parallelism.shapes import GPT_3, LLAMA_8B, MIXTRAL

LLAMA_CONFIG = {
    "model_type": "llama",
    "hidden_size": 4_096,
    "intermediate_size": 14_336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128_256,
    "max_position_embeddings": 8_192,
    "tie_word_embeddings": False,
}


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


def test_a_hugging_face_configuration_gives_the_shape() -> None:
    assert from_config(LLAMA_CONFIG) == LLAMA_8B
    assert from_config(LLAMA_CONFIG, sequence=2_048).sequence == 2_048


def test_gpt_2_states_its_shape_under_other_names() -> None:
    config = {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1_024}
    assert from_config({**config, "vocab_size": 50_257, "n_inner": None}) == gpt(12, 768, 12, 1_024, 50_257)


def test_a_mixture_of_experts_states_its_experts() -> None:
    mixtral = {**LLAMA_CONFIG, "model_type": "mixtral", "vocab_size": 32_000, "num_local_experts": 8}
    assert from_config({**mixtral, "num_experts_per_tok": 2}, sequence=4_096) == MIXTRAL
    shared = {**mixtral, "num_experts_per_tok": 2, "moe_intermediate_size": 1_408, "n_shared_experts": 2}
    assert (from_config(shared).inner, from_config(shared).shared_ffn) == (1_408, 2_816)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"hidden_size": None}, "the model configuration has no hidden_size or n_embd"),
        ({"num_hidden_layers": "many"}, "num_hidden_layers is 'many'; it must be a whole number"),
        ({"kv_lora_rank": 512}, "multi-head latent attention is not modelled; state the shape in numbers"),
    ],
)
def test_a_configuration_that_cannot_be_read_says_why(change: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{sentence}$"):
        from_config({**LLAMA_CONFIG, **change})


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"layers": 0}, "layers is 0; it must be at least 1"),
        ({"heads": 7}, "hidden 1024 is not a multiple of 7 heads; state head_width"),
        ({"kv_heads": 3}, "8 heads cannot share 3 key-value heads evenly"),
        ({"experts": 4, "experts_per_token": 5}, "a token cannot pass 5 of 4 experts"),
        ({"ffn": -1}, "ffn is -1; it must not be negative"),
    ],
)
def test_an_impossible_shape_is_refused_with_its_numbers(change: dict[str, int], sentence: str) -> None:
    numbers = {"layers": 4, "hidden": 1_024, "heads": 8, "sequence": 1_024, "vocabulary": 8_192}
    with pytest.raises(ValueError, match=f"^{sentence}$"):
        ModelShape(**{**numbers, **change})
