"""What the configuration class of each family takes for a field that a config.json leaves out.

Of transformers 5, `models/*/configuration_*.py`; the text part of a Gemma 3 states little else than its size. The width
and the number of layers are not here: a configuration without them says nothing. `tests/frameworks` holds the table to
the classes.
"""

from __future__ import annotations

from collections.abc import Mapping

ALIASES: Mapping[str, str] = {
    "n_embd": "hidden_size", "n_embed": "hidden_size", "n_layer": "num_hidden_layers", "n_head": "num_attention_heads",
    "n_inner": "intermediate_size", "ffn_dim": "intermediate_size", "n_positions": "max_position_embeddings",
    "n_ctx": "max_position_embeddings", "seq_length": "max_position_embeddings", "num_experts": "num_local_experts",
    "n_routed_experts": "num_local_experts",
}  # fmt: skip


def _sizes(heads: int, vocabulary: int, sequence: int, **others: int) -> Mapping[str, int]:
    return {
        "num_attention_heads": heads, "vocab_size": vocabulary, "max_position_embeddings": sequence, **others,
    }  # fmt: skip


_DEEPSEEK_V3 = _sizes(
    128, 129_280, 4_096, num_key_value_heads=128, intermediate_size=18_432, num_local_experts=256,
    num_experts_per_tok=8, moe_intermediate_size=2_048, n_shared_experts=1, first_k_dense_replace=3, kv_lora_rank=512,
    q_lora_rank=1_536, qk_rope_head_dim=64, qk_nope_head_dim=128, v_head_dim=128,
)  # fmt: skip
DEFAULTS: Mapping[str, Mapping[str, int]] = {
    "gpt2": _sizes(12, 50_257, 1_024),
    "opt": _sizes(12, 50_272, 2_048, intermediate_size=3_072),
    "bloom": _sizes(8, 250_880, 2_048),  # the class has no length; published ones state this one
    "gpt_neox": _sizes(64, 50_432, 2_048, intermediate_size=24_576),
    "llama": _sizes(32, 32_000, 2_048, intermediate_size=11_008),
    "mistral": _sizes(32, 32_000, 131_072, num_key_value_heads=8, intermediate_size=14_336),
    "mixtral": _sizes(
        32, 32_000, 131_072, num_key_value_heads=8, intermediate_size=14_336, num_local_experts=8, num_experts_per_tok=2
    ),
    "phi3": _sizes(32, 32_064, 4_096, intermediate_size=8_192),
    "qwen2": _sizes(32, 151_936, 32_768, num_key_value_heads=32, intermediate_size=22_016),
    "qwen2_moe": _sizes(
        16, 151_936, 32_768, num_key_value_heads=16, intermediate_size=5_632, num_local_experts=60,
        num_experts_per_tok=4, moe_intermediate_size=1_408, shared_expert_intermediate_size=5_632,
    ),
    "qwen3": _sizes(32, 151_936, 32_768, num_key_value_heads=32, head_dim=128, intermediate_size=22_016),
    "qwen3_moe": _sizes(
        32, 151_936, 32_768, num_key_value_heads=4, intermediate_size=6_144, num_local_experts=128,
        num_experts_per_tok=8, moe_intermediate_size=768,
    ),
    "gemma": _sizes(16, 256_000, 8_192, num_key_value_heads=16, head_dim=256, intermediate_size=24_576),
    "gemma2": _sizes(8, 256_000, 8_192, num_key_value_heads=4, head_dim=256, intermediate_size=9_216),
    "gemma3_text": _sizes(8, 262_208, 131_072, num_key_value_heads=4, head_dim=256, intermediate_size=9_216),
    "gpt_oss": _sizes(
        64, 201_088, 131_072, num_key_value_heads=8, head_dim=64, intermediate_size=2_880, num_local_experts=128,
        num_experts_per_tok=4, attention_bias=True,
    ),
    "deepseek_v2": _sizes(
        32, 102_400, 2_048, intermediate_size=11_008, num_local_experts=64, moe_intermediate_size=1_407,
        n_shared_experts=2, kv_lora_rank=512, q_lora_rank=1_536, qk_rope_head_dim=64, qk_nope_head_dim=128,
        v_head_dim=128,
    ),
    "deepseek_v3": _DEEPSEEK_V3,
    "kimi_k2": _DEEPSEEK_V3,
}  # fmt: skip
