"""Each field of each configuration class, changed and left out, is counted as transformers counts it, or refused.

Collected in the environment of the frameworks only, by `test_model_configurations.py`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

from platform_core.parallelism.configuration_defaults import ALIASES, DEFAULTS
from platform_core.parallelism.hugging_face import FAMILIES, from_config
from tests.core.parallelism.configurations import PUBLISHED

# Small, and no two of them equal where it matters, so that no field is taken for another one.
SMALL = {
    "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size": 128, "pad_token_id": 0,
    "intermediate_size": 96, "max_position_embeddings": 128, "num_key_value_heads": 2, "head_dim": 16,
    "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 48,
}  # fmt: skip
LATENT = {
    "num_key_value_heads": 4, "num_local_experts": 8, "n_shared_experts": 1, "kv_lora_rank": 16, "q_lora_rank": 24,
    "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 20, "first_k_dense_replace": 1, "n_group": 2,
    "topk_group": 1,
}  # fmt: skip
CLASSES = sorted(FAMILIES.keys() - {"kimi_k2"})  # its class is published beside its weights


def small(family: str) -> dict[str, Any]:
    given = CONFIG_MAPPING[family]().to_dict()
    sizes = SMALL | (LATENT if "kv_lora_rank" in given else {})
    known = {name: sizes[ALIASES.get(name, name)] for name in given if ALIASES.get(name, name) in sizes}
    if given.get("head_dim") is None or "kv_lora_rank" in given:
        known.pop("head_dim", None)
    return CONFIG_MAPPING[family](**known).to_dict()


def counted(family: str, config: dict[str, Any]) -> int:
    """Raises whatever transformers has against it."""
    given = {name: value for name, value in config.items() if name != "transformers_version"}
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(CONFIG_MAPPING[family].from_dict(given))
    model.tie_weights()
    return sum(parameter.numel() for parameter in {id(one): one for one in model.parameters()}.values())


def variants(config: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, value in config.items():
        if name in ("model_type", "transformers_version", "architectures", "dtype"):
            continue
        yield f"without {name}", {key: kept for key, kept in config.items() if key != name}
        for other in others(value):
            yield f"{name}={other}", copy.deepcopy(config) | {name: other}


def others(value: Any) -> list[Any]:
    match value:
        case bool():
            return [not value]
        case int():
            return [2 * value, value + 1]
        case float():
            return [value + 0.5]
        case None:
            return [True, 2, 32]
        case [first, *_]:
            return [[], [*value[:-1], first]]
        case []:
            return [[0], [1]]
        case _:
            return []


@pytest.mark.parametrize("family", CLASSES)
def test_every_field_of_a_configuration_is_counted_as_transformers_does_or_refused(family: str) -> None:
    config = small(family)
    assert from_config(config).parameters == counted(family, config)
    looked_at = 0
    for change, changed in variants(config):
        try:
            expected = counted(family, changed)
        except Exception:
            continue  # no model either
        looked_at += 1
        try:
            ours = from_config(changed).parameters
        except ValueError:
            continue
        assert ours == expected, f"{family} with {change}"
    assert looked_at > 20


@pytest.mark.parametrize("family", CLASSES)
def test_the_defaults_are_those_of_the_class(family: str) -> None:
    of_class = {ALIASES.get(name, name): value for name, value in CONFIG_MAPPING[family]().to_dict().items()}
    for name, value in DEFAULTS[family].items():
        assert of_class.get(name, value) == value, name


@pytest.mark.parametrize("name", [name for name in PUBLISHED if PUBLISHED[name][0]["model_type"] in CLASSES])
def test_a_published_configuration_is_counted_alike(name: str) -> None:
    config = PUBLISHED[name][0]
    assert from_config(config).parameters == counted(config["model_type"], config)
