"""Models and clusters of the papers."""

from dataclasses import replace

from platform_core.parallelism.hardware import GPUS, Cluster
from platform_core.parallelism.model_shape import ModelShape, gpt

GPT_3 = gpt(layers=96, hidden=12_288, heads=96, sequence=2_048, vocabulary=51_200)
SMALL = gpt(layers=4, hidden=1_024, heads=8, sequence=1_024, vocabulary=8_192)
LLAMA_8B = ModelShape(
    layers=32,
    hidden=4_096,
    heads=32,
    sequence=8_192,
    vocabulary=128_256,
    kv_heads=8,
    ffn=14_336,
    gated=True,
    biases=False,
    learned_positions=False,
    tied_embeddings=False,
)
MIXTRAL = replace(LLAMA_8B, vocabulary=32_000, sequence=4_096, experts=8, experts_per_token=2)

# Latent attention, and a first layer without experts.
LATENT = ModelShape(
    layers=4, hidden=1_024, heads=8, sequence=512, vocabulary=8_192, head_width=96, gated=True, biases=False,
    learned_positions=False, kv_rank=128, query_rank=256, rope_width=32, value_width=64, experts=16,
    experts_per_token=2, ffn=256, shared_ffn=512, dense_layers=1, dense_ffn=3_072,
)  # fmt: skip


def a100(nodes: int, network_rate: float = 100e9) -> Cluster:
    return Cluster(GPUS["a100-80gb"], nodes, 8, network_rate)


def h100(nodes: int) -> Cluster:
    return Cluster(GPUS["h100-80gb"], nodes, 8, 400e9)
