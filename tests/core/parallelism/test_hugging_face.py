"""Published config.json files give the published counts, or a sentence that says why not."""

from dataclasses import replace

import pytest

from platform_core.parallelism.hugging_face import FAMILIES, from_config
from platform_core.parallelism.model_shape import gpt
from tests.core.parallelism import shapes
from tests.core.parallelism.configurations import (
    DEEPSEEK_V2,
    DEEPSEEK_V3,
    KIMI_K2,
    LLAMA_8B,
    PUBLISHED,
)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_configuration_has_exactly_the_parameters_of_its_weights(name: str) -> None:
    published, parameters = PUBLISHED[name]
    assert from_config(published).parameters == parameters


@pytest.mark.parametrize(
    ("published", "billions", "active"),
    [
        (DEEPSEEK_V2, 236, 21),  # DeepSeek-AI 2024, arXiv 2405.04434, abstract
        (DEEPSEEK_V3, 671, 37),  # DeepSeek-AI 2024, arXiv 2412.19437, abstract
        (KIMI_K2, 1_026, 32),  # Kimi Team 2025, arXiv 2507.20534: 1.04 T and 32 B
        (PUBLISHED["Qwen3 235B A22B"][0], 235, 22),
        (PUBLISHED["Qwen1.5 MoE A2.7B"][0], 14, 2),
        (PUBLISHED["gpt-oss 120B"][0], 117, 5),  # OpenAI 2025, arXiv 2508.10925, table 1: 116.83 B and 5.13 B
    ],
)
def test_a_token_passes_as_many_parameters_as_published(
    published: dict[str, object], billions: int, active: int
) -> None:
    shape = from_config(published)
    assert round(shape.parameters / 1e9) == billions
    assert shape.active_parameters // 10**9 == active


@pytest.mark.parametrize(("published", "gigaflops"), [(DEEPSEEK_V2, 155), (DEEPSEEK_V3, 250)])
def test_training_costs_the_published_flops_a_token(published: dict[str, object], gigaflops: int) -> None:
    """Zhao et al. 2025 (arXiv 2505.09343), table 2: sequences of 4,096, with the masked half of the scores left out.
    The embedding is not a product."""
    shape = from_config(published, sequence=4_096)
    masked = 3 * shape.layers * shape.sequence * (shape.query_width + shape.output_width)
    assert round((shape.flops() / shape.sequence - masked) / 1e9) == gigaflops


def test_a_llama_and_a_mixtral_are_the_shapes_that_the_tests_state_in_numbers() -> None:
    assert from_config(LLAMA_8B, sequence=8_192) == shapes.LLAMA_8B
    assert from_config(PUBLISHED["Mixtral 8x7B"][0]) == shapes.MIXTRAL


@pytest.mark.parametrize(
    ("name", "change", "window", "full_layers"),
    [
        ("Mistral 7B", {}, 4_096, 0),  # Jiang et al. 2023, arXiv 2310.06825, table 1
        ("Mistral 7B", {"sliding_window": None}, 0, 0),  # from version 0.2 on
        ("Mixtral 8x7B", {"sliding_window": None}, 0, 0),
        ("Phi-3 mini", {"sliding_window": 2_047}, 2_047, 0),
        ("Gemma 2 9B", {}, 4_096, 21),  # arXiv 2408.00118, section 2: every other layer
        ("Gemma 3 1B", {"sliding_window": 512, "sliding_window_pattern": 6}, 512, 4),  # arXiv 2503.19786: 5 of 6
        ("gpt-oss 20B", {}, 128, 12),  # arXiv 2508.10925, section 2.2: alternating
        ("gpt-oss 20B", {"layer_types": ["sliding_attention"] * 20 + ["full_attention"] * 4}, 128, 4),
        ("gpt-oss 20B", {"layer_types": ["full_attention"] * 24}, 0, 0),
        ("Qwen2.5 72B", {"sliding_window": 131_072, "use_sliding_window": False}, 0, 0),
        ("Qwen2.5 72B", {"sliding_window": 4_096, "use_sliding_window": True, "max_window_layers": 70}, 4_096, 70),
        ("Llama 3.1 8B", {}, 0, 0),
    ],
)  # fmt: skip
def test_windows_of_attention_are_those_of_the_family_or_of_the_configuration(
    name: str, change: dict[str, object], window: int, full_layers: int
) -> None:
    shape = from_config({**PUBLISHED[name][0], **change})
    assert (shape.window, shape.full_layers) == (window, full_layers)


def test_gpt_2_states_its_shape_under_other_names() -> None:
    config = {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1_024}
    assert from_config({**config, "vocab_size": 50_257, "n_inner": None}) == gpt(12, 768, 12, 1_024, 50_257)


def test_a_model_trains_in_the_width_that_its_embedding_is_widened_to() -> None:
    shape = from_config(PUBLISHED["OPT 350M"][0])
    assert (shape.hidden, shape.token_width, shape.token_parameters) == (1_024, 512, 50_272 * 512)
    layers = replace(shape, embedding_width=0).flops() - shape.flops()
    assert layers == 6 * shape.sequence * (50_272 * (1_024 - 512) - 2 * 512 * 1_024)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_field_under_another_familys_name_is_no_field(name: str) -> None:
    """An alias that is null, as files of older versions have it, changes nothing."""
    published, parameters = PUBLISHED[name]
    assert from_config({"n_inner": None, "n_ctx": None, **published}).parameters == parameters


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_is_proven_on_a_published_model(family: str) -> None:
    proven = {str(published["model_type"]) for published, _ in PUBLISHED.values()}
    assert family in proven | {"kimi_k2"}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"hidden_size": None}, "the model configuration has no hidden_size"),
        ({"num_hidden_layers": "many"}, "num_hidden_layers is 'many'; it must be a whole number"),
        ({"model_type": "falcon"}, "its model_type is falcon; known are bloom, "),
        ({"model_type": None}, "its model_type is missing; known are bloom, "),
        ({"text_config": {"hidden_size": 4_096}}, "it describes a model of text and images"),
        ({"kv_lora_rank": 512}, "the model configuration has no qk_rope_head_dim"),
        (
            {"model_type": "qwen3_moe", "num_experts": 8, "num_experts_per_tok": 2, "mlp_only_layers": [3]},
            r"mlp_only_layers is \[3\]; layers that differ so are not modelled, state the shape in numbers",
        ),
        (
            {"sliding_window": 8_192, "layer_types": ["chunked_attention"]},
            "layer_types has 'chunked_attention'; known are full_attention and sliding_attention",
        ),
        ({"model_type": "deepseek_v3", "moe_layer_freq": 2}, "moe_layer_freq is 2; layers that differ so"),
    ],
)
def test_a_configuration_that_cannot_be_read_says_why(change: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{sentence}"):
        from_config({**LLAMA_8B, **change})
