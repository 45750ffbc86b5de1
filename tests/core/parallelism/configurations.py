"""Parts of the config.json of published models."""

from typing import Any

Config = dict[str, Any]


def config(
    family: str, hidden: int, ffn: int, layers: int, heads: int, vocabulary: int, **rest: Any
) -> Config:
    return {
        "model_type": family, "hidden_size": hidden, "intermediate_size": ffn, "num_hidden_layers": layers,
        "num_attention_heads": heads, "vocab_size": vocabulary, "max_position_embeddings": 4_096, **rest,
    }  # fmt: skip


_LATENT = {"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
_SMALL_EXPERTS = {
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "mlp_only_layers": [],
    "decoder_sparse_step": 1,
}
LLAMA_8B = config("llama", 4_096, 14_336, 32, 32, 128_256, num_key_value_heads=8, tie_word_embeddings=False)
DEEPSEEK_V2 = config(
    "deepseek_v2", 5_120, 12_288, 60, 128, 102_400, num_key_value_heads=128, q_lora_rank=1_536, first_k_dense_replace=1,
    n_routed_experts=160, n_shared_experts=2, num_experts_per_tok=6, moe_intermediate_size=1_536, moe_layer_freq=1,
    **_LATENT,
)  # fmt: skip
DEEPSEEK_V2_LITE = config(
    "deepseek_v2", 2_048, 10_944, 27, 16, 102_400, num_key_value_heads=16, q_lora_rank=None, first_k_dense_replace=1,
    n_routed_experts=64, n_shared_experts=2, num_experts_per_tok=6, moe_intermediate_size=1_408, moe_layer_freq=1,
    **_LATENT,
)  # fmt: skip
DEEPSEEK_V3 = config(
    "deepseek_v3", 7_168, 18_432, 61, 128, 129_280, num_key_value_heads=128, q_lora_rank=1_536, first_k_dense_replace=3,
    n_routed_experts=256, n_shared_experts=1, num_experts_per_tok=8, moe_intermediate_size=2_048, moe_layer_freq=1,
    **_LATENT,
)  # fmt: skip
KIMI_K2 = {
    **DEEPSEEK_V3, "model_type": "kimi_k2", "num_attention_heads": 64, "num_key_value_heads": 64, "vocab_size": 163_840,
    "first_k_dense_replace": 1, "n_routed_experts": 384,
}  # fmt: skip
GPT_2_XL = {
    "model_type": "gpt2",
    "n_embd": 1_600,
    "n_layer": 48,
    "n_head": 25,
    "n_positions": 1_024,
    "vocab_size": 50_257,
}

# As published: no length for BLOOM's positions, which it does not learn, and a narrower embedding for OPT 350M
BLOOM_560M = {
    "model_type": "bloom", "n_embed": 1_024, "n_layer": 24, "num_attention_heads": 16, "n_inner": None,
    "vocab_size": 250_880, "seq_length": 2_048, "offset_alibi": 100,
}  # fmt: skip
OPT_350M = {
    "model_type": "opt", "hidden_size": 1_024, "ffn_dim": 4_096, "num_hidden_layers": 24, "num_attention_heads": 16,
    "vocab_size": 50_272, "max_position_embeddings": 2_048, "word_embed_proj_dim": 512, "do_layer_norm_before": False,
    "_remove_final_layer_norm": False,
}  # fmt: skip
OPT_125M = {
    **OPT_350M, "hidden_size": 768, "ffn_dim": 3_072, "num_hidden_layers": 12, "num_attention_heads": 12,
    "word_embed_proj_dim": 768, "do_layer_norm_before": True,
}  # fmt: skip

GPT_OSS_20B = config(
    "gpt_oss", 2_880, 2_880, 24, 64, 201_088, num_key_value_heads=8, head_dim=64, attention_bias=True,
    num_local_experts=32, num_experts_per_tok=4, sliding_window=128,
)  # fmt: skip

# With the parameters that the model hub counts in their weights.
PUBLISHED: dict[str, tuple[Config, int]] = {
    "Llama 3.1 8B": (LLAMA_8B, 8_030_261_248),
    "Llama 3.1 70B": (config("llama", 8_192, 28_672, 80, 64, 128_256, num_key_value_heads=8), 70_553_706_496),
    "Llama 3.1 405B": (config("llama", 16_384, 53_248, 126, 128, 128_256, num_key_value_heads=8), 405_853_388_800),
    "Llama 3.2 1B": (
        config("llama", 2_048, 8_192, 16, 32, 128_256, num_key_value_heads=8, tie_word_embeddings=True), 1_235_814_400,
    ),
    "Mistral 7B": (config("mistral", 4_096, 14_336, 32, 32, 32_000, num_key_value_heads=8), 7_241_732_096),
    "Mixtral 8x7B": (
        config("mixtral", 4_096, 14_336, 32, 32, 32_000, num_key_value_heads=8, num_local_experts=8,
               num_experts_per_tok=2),
        46_702_792_704,
    ),
    "Phi-3 mini": (config("phi3", 3_072, 8_192, 32, 32, 32_064, attention_bias=False), 3_821_079_552),
    "Qwen2 0.5B": (
        config("qwen2", 896, 4_864, 24, 14, 151_936, num_key_value_heads=2, tie_word_embeddings=True), 494_032_768,
    ),
    "Qwen2.5 72B": (config("qwen2", 8_192, 29_568, 80, 64, 152_064, num_key_value_heads=8), 72_706_203_648),
    "Qwen1.5 MoE A2.7B": (
        config("qwen2_moe", 2_048, 5_632, 24, 16, 151_936, num_experts=60, num_experts_per_tok=4,
               moe_intermediate_size=1_408, shared_expert_intermediate_size=5_632, decoder_sparse_step=1),
        14_315_784_192,
    ),
    "Qwen3 0.6B": (
        config("qwen3", 1_024, 3_072, 28, 16, 151_936, num_key_value_heads=8, head_dim=128, tie_word_embeddings=True),
        596_049_920,
    ),
    "Qwen3 30B A3B": (
        config("qwen3_moe", 2_048, 6_144, 48, 32, 151_936, num_key_value_heads=4, head_dim=128,
               moe_intermediate_size=768, **_SMALL_EXPERTS),
        30_532_122_624,
    ),
    "Qwen3 235B A22B": (
        config("qwen3_moe", 4_096, 12_288, 94, 64, 151_936, num_key_value_heads=4, head_dim=128,
               moe_intermediate_size=1_536, **_SMALL_EXPERTS),
        235_093_634_560,
    ),
    "Gemma 7B": (config("gemma", 3_072, 24_576, 28, 16, 256_000, head_dim=256), 8_537_680_896),
    "Gemma 2 9B": (
        config("gemma2", 3_584, 14_336, 42, 16, 256_000, num_key_value_heads=8, head_dim=256), 9_241_705_984,
    ),
    "Gemma 3 1B": (
        config("gemma3_text", 1_152, 6_912, 26, 4, 262_144, num_key_value_heads=1, head_dim=256), 999_885_952,
    ),
    "gpt-oss 20B": (GPT_OSS_20B, 20_914_757_184),
    "gpt-oss 120B": ({**GPT_OSS_20B, "num_hidden_layers": 36, "num_local_experts": 128}, 116_829_156_672),
    "GPT-2 XL": (GPT_2_XL, 1_557_611_200),
    "OPT 125M": (OPT_125M, 125_239_296),
    "OPT 350M": (OPT_350M, 331_196_416),
    "BLOOM 560M": (BLOOM_560M, 559_214_592),
    "BLOOM 176B": (
        {**BLOOM_560M, "n_embed": 14_336, "n_layer": 70, "num_attention_heads": 112}, 176_247_271_424,
    ),
    # All that its file states of the text beside rope and window
    "Gemma 3 4B, text": (
        {"model_type": "gemma3_text", "hidden_size": 2_560, "intermediate_size": 10_240, "num_hidden_layers": 34},
        3_880_263_168,
    ),
    "Pythia 6.9B": (config("gpt_neox", 4_096, 16_384, 32, 32, 50_432, attention_bias=True), 6_857_302_016),
    "GPT-NeoX 20B": (config("gpt_neox", 6_144, 24_576, 44, 64, 50_432), 20_554_567_680),
    "DeepSeek-V2": (DEEPSEEK_V2, 235_741_434_880),
    "DeepSeek-V2 Lite": (DEEPSEEK_V2_LITE, 15_706_484_224),
    # 671,026,419,200 with the correction biases of 58 routers, which no gradient trains
    "DeepSeek-V3": (DEEPSEEK_V3, 671_026_419_200 - 58 * 256),
}  # fmt: skip
