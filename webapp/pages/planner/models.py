"""Known models to begin from, as their authors published them."""

from __future__ import annotations

from collections.abc import Mapping

_LLAMA = {"vocabulary": 128_256, "kv_heads": 8, "gated": True}
# Brown et al. 2020 (GPT-3), table 2.1; Grattafiori et al. 2024 (Llama 3), table 3;
# Jiang et al. 2024 (Mixtral), table 1; DeepSeek-AI 2024 (arXiv 2412.19437), section 4.2.
PRESETS: Mapping[str, Mapping[str, object]] = {
    "Llama 3 8B": {"layers": 32, "hidden": 4_096, "heads": 32, "ffn": 14_336, **_LLAMA},
    "Llama 3 70B": {"layers": 80, "hidden": 8_192, "heads": 64, "ffn": 28_672, **_LLAMA},
    "Llama 3 405B": {"layers": 126, "hidden": 16_384, "heads": 128, "ffn": 53_248, **_LLAMA},
    "GPT-3 175B": {
        "layers": 96, "hidden": 12_288, "heads": 96, "vocabulary": 50_257, "gated": False, "biases": True,
        "learned_positions": True, "tied_embeddings": True,
    },
    "Mixtral 8x7B": {
        "layers": 32, "hidden": 4_096, "heads": 32, "kv_heads": 8, "ffn": 14_336, "vocabulary": 32_000, "gated": True,
        "experts": 8, "experts_per_token": 2,
    },
    "DeepSeek-V3 671B": {
        "layers": 61, "hidden": 7_168, "heads": 128, "head_width": 192, "ffn": 2_048, "vocabulary": 129_280,
        "gated": True, "experts": 256, "experts_per_token": 8, "shared_ffn": 2_048, "dense_layers": 3,
        "dense_ffn": 18_432, "kv_rank": 512, "query_rank": 1_536, "rope_width": 64, "value_width": 128,
    },
}  # fmt: skip
FIRST = "Llama 3 70B"
