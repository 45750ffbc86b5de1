"""The shape of a model from its Hugging Face config.json.

A configuration leaves out what its class has by default, and does not state which matrices have biases, so each family
is listed here (transformers, `models/*/configuration_*.py` and `modeling_*.py`). What a family has beyond a
`ModelShape` is refused, not guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from platform_core.parallelism.configuration_defaults import ALIASES, DEFAULTS
from platform_core.parallelism.model_shape import ModelShape


@dataclass(frozen=True, slots=True)
class Family:
    gated: bool = True
    biases: bool = False  # of all linear layers and norms
    query_biases: bool = False  # of queries, keys and values only
    head_norms: bool = False  # over each head of queries and keys
    norms: int = 2  # of a layer
    learned_positions: bool = False
    tied_embeddings: bool = False  # where the configuration leaves it out
    window: int = 0  # of attention, likewise
    full_every: int = 0  # the last of so many layers has no window, likewise; 0: all have it
    window_on_demand: bool = False  # only with use_sliding_window
    sinks: bool = False  # a learnt logit for each head
    expert_biases: bool = False
    outer_vectors: int = 0  # as wide as a token, outside of the layers


_LLAMA = Family()
FAMILIES: Mapping[str, Family] = {
    "gpt2": Family(gated=False, biases=True, tied_embeddings=True, learned_positions=True),
    "opt": Family(
        gated=False, biases=True, tied_embeddings=True, learned_positions=True, outer_vectors=2
    ),  # positions
    "bloom": Family(gated=False, biases=True, tied_embeddings=True, outer_vectors=2),  # a norm
    "gpt_neox": Family(gated=False, biases=True),
    "llama": _LLAMA,
    "mistral": Family(window=4_096),
    "mixtral": _LLAMA,
    "phi3": _LLAMA,
    "qwen2": Family(query_biases=True, window_on_demand=True),
    "qwen2_moe": Family(query_biases=True, window_on_demand=True),
    "qwen3": Family(head_norms=True, window_on_demand=True),
    "qwen3_moe": Family(head_norms=True, window_on_demand=True),
    "gemma": Family(tied_embeddings=True),
    "gemma2": Family(tied_embeddings=True, norms=4, window=4_096, full_every=2),
    "gemma3_text": Family(tied_embeddings=True, norms=4, head_norms=True, window=4_096, full_every=6),
    "gpt_oss": Family(window=128, full_every=2, sinks=True, expert_biases=True),
    "deepseek_v2": _LLAMA,
    "deepseek_v3": _LLAMA,
    "kimi_k2": _LLAMA,
}
# Layers that differ from each other in another way than `dense_layers`: by name, the value that means they do not.
_ALIKE: Mapping[str, tuple[object, ...]] = {
    "moe_layer_freq": (None, 1),
    "decoder_sparse_step": (None, 1),
    "mlp_only_layers": (None, []),
    "mlp_bias": (None, False),
    "add_cross_attention": (None, False),
    "enable_bias": (None, True),
    "layer_norm_elementwise_affine": (None, True),
}


def from_config(config: Mapping[str, object], sequence: int = 0) -> ModelShape:
    """Reads the mapping of a config.json; `sequence` replaces the longest that the model knows. Raises ValueError."""
    family = _family(config)
    config = _with_defaults(config)
    experts = _number(config, "num_local_experts", default=0)
    ffn = _number(config, "intermediate_size", default=0)
    dense = _number(config, "first_k_dense_replace", default=0) if experts else 0
    heads = _number(config, "num_attention_heads")
    hidden = _number(config, "hidden_size")
    kv_heads = _number(config, "num_key_value_heads", default=0)
    kv_rank = _number(config, "kv_lora_rank", default=0)
    rope_width = _number(config, "qk_rope_head_dim") if kv_rank else 0
    layers = _number(config, "num_hidden_layers")
    window, full_layers = _windows(config, family, layers)
    embedding = _number(config, "word_embed_proj_dim", default=hidden)
    latent_head = rope_width + _number(config, "qk_nope_head_dim") if kv_rank else 0
    return ModelShape(
        layers=layers,
        hidden=hidden,
        heads=heads,
        sequence=sequence or _number(config, "max_position_embeddings"),
        vocabulary=_number(config, "vocab_size"),
        kv_heads=kv_heads,
        head_width=latent_head or _number(config, "head_dim", default=0),
        ffn=_number(config, "moe_intermediate_size", default=ffn) if experts else ffn,
        gated=family.gated,
        biases=family.biases,
        learned_positions=family.learned_positions,
        tied_embeddings=bool(config.get("tie_word_embeddings", family.tied_embeddings)),
        experts=experts,
        experts_per_token=_number(config, "num_experts_per_tok", default=0) if experts else 0,
        shared_ffn=_shared_ffn(config) if experts else 0,
        dense_layers=dense,
        dense_ffn=ffn if dense else 0,
        kv_rank=kv_rank,
        query_rank=_number(config, "q_lora_rank", default=0) if kv_rank else 0,
        rope_width=rope_width,
        value_width=_number(config, "v_head_dim") if kv_rank else 0,
        window=window,
        full_layers=full_layers,
        other_parameters=_other_parameters(config, family, hidden, heads, kv_heads or heads, experts, ffn),
        embedding_width=embedding if embedding != hidden else 0,
        outer_parameters=hidden * (family.outer_vectors - (0 if _has_final_norm(config) else 2)),
    )


def _has_final_norm(config: Mapping[str, object]) -> bool:
    """Only opt may have none: where the norms of its layers come behind them, or where it was taken out."""
    return bool(config.get("do_layer_norm_before", True)) and not config.get(
        "_remove_final_layer_norm", False
    )


_KINDS = {"sliding_attention", "full_attention"}


def _windows(config: Mapping[str, object], family: Family, layers: int) -> tuple[int, int]:
    """Tokens of the attention window, and how many layers have none; (0, 0) without windows."""
    if family.window_on_demand and not config.get("use_sliding_window"):
        return 0, 0
    window = _number(config, "sliding_window", default=0 if "sliding_window" in config else family.window)
    kinds = config.get("layer_types")
    if isinstance(kinds, list):
        if unknown := [kind for kind in kinds if kind not in _KINDS]:
            raise ValueError(
                f"layer_types has {unknown[0]!r}; known are full_attention and sliding_attention"
            )
        full = kinds.count("full_attention")
    elif family.window_on_demand:
        full = _number(config, "max_window_layers", default=28)
    else:
        every = _number(config, "sliding_window_pattern", default=family.full_every)
        full = layers // every if every else 0
    return (window, full) if window and full < layers else (0, 0)


def _family(config: Mapping[str, object]) -> Family:
    if isinstance(config.get("text_config"), Mapping):
        raise ValueError("it describes a model of text and images; give the mapping of its text_config alone")
    name = str(config.get("model_type") or "")
    if name not in FAMILIES:
        raise ValueError(
            f"its model_type is {name or 'missing'}; known are {', '.join(sorted(FAMILIES))}. "
            "State the model_type of a relative with equal layers, or the shape in numbers"
        )
    if FAMILIES[name].biases and config.get("attention_bias") is False:
        raise ValueError(
            "attention_bias is False; only all biases or none are modelled, state the shape in numbers"
        )
    for field, usual in _ALIKE.items():
        if config.get(field) not in usual:
            raise ValueError(
                f"{field} is {config[field]!r}; layers that differ so are not modelled, state the shape in numbers"
            )
    return FAMILIES[name]


def _other_parameters(
    config: Mapping[str, object], family: Family, hidden: int, heads: int, groups: int, experts: int, ffn: int
) -> int:
    """Of a layer, beside what a `ModelShape` counts."""
    width = _number(config, "head_dim", default=hidden // heads)
    other = (family.norms - 2) * hidden
    if family.head_norms:
        other += 2 * width
    attention_biases = config.get("attention_bias") and not family.biases
    if (
        config.get("kv_lora_rank") and attention_biases
    ):  # of both latent vectors, the rotary part of the keys among them
        other += sum(
            _number(config, name, default=0) for name in ("q_lora_rank", "kv_lora_rank", "qk_rope_head_dim")
        )
    elif (family.query_biases and config.get("qkv_bias", True)) or attention_biases:
        other += (heads + 2 * groups) * width
    if attention_biases:
        other += hidden
    if config.get("shared_expert_intermediate_size"):
        other += hidden  # of the gate in front of the shared expert
    if family.sinks:
        other += heads
    if family.expert_biases:
        other += experts * (
            1 + 2 * ffn + hidden
        )  # of the router, of both factors of the product, and behind it
    return other


def _shared_ffn(config: Mapping[str, object]) -> int:
    width = _number(config, "shared_expert_intermediate_size", default=0)
    shared = _number(config, "n_shared_experts", default=0)
    return width or shared * _number(config, "moe_intermediate_size", default=0)


def _with_defaults(config: Mapping[str, object]) -> Mapping[str, object]:
    """The configuration under one name a field, with what its class has where it leaves a field out."""
    named = dict(config)
    for alias, name in ALIASES.items():
        if config.get(alias) is not None and named.get(name) is None:
            named[name] = config[alias]
    return {**DEFAULTS[str(config["model_type"])], **named}


def _number(config: Mapping[str, object], name: str, default: int | None = None) -> int:
    value = config.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if value is not None:
        raise ValueError(f"{name} is {value!r}; it must be a whole number")
    if default is None:
        raise ValueError(f"the model configuration has no {name}")
    return default
