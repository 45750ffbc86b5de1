"""The shape of a transformer, and how many parameters it has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

FAMILIES_WITH_LAYER_NORM = {"gpt2", "gpt_neo", "gpt_neox", "gptj", "opt", "bloom", "falcon", "phi"}
LATENT_ATTENTION = ("q_lora_rank", "kv_lora_rank")


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A decoder of equal layers. Zero means the usual value: `kv_heads` = heads, `head_width` = hidden / heads,
    `ffn` = 4 hidden. With `experts`, every MLP is a mixture; `ffn` is then the width of one expert."""

    layers: int
    hidden: int
    heads: int
    sequence: int
    vocabulary: int
    kv_heads: int = 0
    head_width: int = 0
    ffn: int = 0
    gated: bool = False  # SwiGLU: three matrices, not two
    biases: bool = True  # linear biases and LayerNorm (GPT); otherwise RMSNorm and no biases (Llama)
    learned_positions: bool = True
    tied_embeddings: bool = True
    experts: int = 0
    experts_per_token: int = 0
    shared_ffn: int = 0  # width of the experts that every token passes

    def __post_init__(self) -> None:
        for name in ("layers", "hidden", "heads", "sequence", "vocabulary"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
        for name in ("kv_heads", "head_width", "ffn", "experts", "experts_per_token", "shared_ffn"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must not be negative")
        if not self.head_width and self.hidden % self.heads:
            raise ValueError(
                f"hidden {self.hidden} is not a multiple of {self.heads} heads; state head_width"
            )
        if self.heads % self.groups:
            raise ValueError(f"{self.heads} heads cannot share {self.groups} key-value heads evenly")
        if self.experts and not 1 <= self.experts_per_token <= self.experts:
            raise ValueError(f"a token cannot pass {self.experts_per_token} of {self.experts} experts")

    @property
    def groups(self) -> int:
        """Key-value heads: fewer than heads in grouped-query attention (Ainslie et al. 2023)."""
        return self.kv_heads or self.heads

    @property
    def width(self) -> int:
        """Of one head."""
        return self.head_width or self.hidden // self.heads

    @property
    def query_width(self) -> int:
        return self.heads * self.width

    @property
    def kv_width(self) -> int:
        """Of the keys, and as much of the values."""
        return self.groups * self.width

    @property
    def inner(self) -> int:
        return self.ffn or 4 * self.hidden

    @property
    def matrices(self) -> int:
        return 3 if self.gated else 2

    @property
    def norm_parameters(self) -> int:
        return 2 * self.hidden if self.biases else self.hidden

    @property
    def attention_parameters(self) -> int:
        weights = 2 * self.hidden * (self.query_width + self.kv_width)
        return weights + (self.query_width + 2 * self.kv_width + self.hidden if self.biases else 0)

    def mlp_parameters(self, inner: int) -> int:
        biases = (self.matrices - 1) * inner + self.hidden if self.biases else 0
        return self.matrices * self.hidden * inner + biases

    @property
    def dense_layer_parameters(self) -> int:
        """Of a layer, without its routed experts."""
        if not self.experts:
            mlp = self.mlp_parameters(self.inner)
        else:
            shared = self.mlp_parameters(self.shared_ffn) if self.shared_ffn else 0
            mlp = self.hidden * self.experts + shared  # router
        return self.attention_parameters + mlp + 2 * self.norm_parameters

    @property
    def expert_layer_parameters(self) -> int:
        return self.experts * self.mlp_parameters(self.inner) if self.experts else 0

    @property
    def block_parameters(self) -> int:
        return self.layers * (self.dense_layer_parameters + self.expert_layer_parameters)

    @property
    def embedding_parameters(self) -> int:
        """Before the first layer: tokens, and learned positions."""
        return self.hidden * (self.vocabulary + (self.sequence if self.learned_positions else 0))

    @property
    def head_parameters(self) -> int:
        """Behind the last layer, what is not shared with the embedding."""
        return self.norm_parameters + (0 if self.tied_embeddings else self.vocabulary * self.hidden)

    @property
    def parameters(self) -> int:
        return self.block_parameters + self.embedding_parameters + self.head_parameters

    @property
    def active_parameters(self) -> int:
        """Those that one token passes."""
        if not self.experts:
            return self.parameters
        idle = (self.experts - self.experts_per_token) * self.mlp_parameters(self.inner)
        return self.parameters - self.layers * idle

    @property
    def active_inner(self) -> int:
        """Width of the MLP that one token passes."""
        return self.inner * self.experts_per_token + self.shared_ffn if self.experts else self.inner

    def flops(self, passes: int = 3) -> int:
        """Of one sequence. Three forward passes' worth of every layer, the numerator of MFU; four with full
        recomputation. Two for each weight and token that a product uses, the attention matrix twice, causal
        masking not deducted (Narayanan et al. 2021, arXiv 2104.04473, appendix)."""
        weights = 2 * self.hidden * (self.query_width + self.kv_width) + self.hidden * self.experts
        weights += self.matrices * self.hidden * self.active_inner
        layer = 2 * self.sequence * weights + 4 * self.sequence**2 * self.query_width
        return passes * self.layers * layer + 6 * self.sequence * self.hidden * self.vocabulary


def gpt(layers: int, hidden: int, heads: int, sequence: int, vocabulary: int) -> ModelShape:
    """The shape of GPT-2 and GPT-3."""
    return ModelShape(layers, hidden, heads, sequence, vocabulary)


def from_config(config: Mapping[str, object], sequence: int = 0) -> ModelShape:
    """Reads the mapping of a Hugging Face config.json; `sequence` replaces the longest that the model knows."""
    if any(config.get(key) for key in LATENT_ATTENTION):
        raise ValueError("multi-head latent attention is not modelled; state the shape in numbers")
    family = str(config.get("model_type", ""))
    plain = family in FAMILIES_WITH_LAYER_NORM
    heads = _number(config, "num_attention_heads", "n_head")
    experts = _number(config, "num_local_experts", "num_experts", "n_routed_experts", default=0)
    ffn = _number(config, "intermediate_size", "n_inner", default=0)
    return ModelShape(
        layers=_number(config, "num_hidden_layers", "n_layer"),
        hidden=_number(config, "hidden_size", "n_embd"),
        heads=heads,
        sequence=sequence or _number(config, "max_position_embeddings", "n_positions", "n_ctx"),
        vocabulary=_number(config, "vocab_size"),
        kv_heads=_number(config, "num_key_value_heads", default=0),
        head_width=_number(config, "head_dim", default=0),
        ffn=_number(config, "moe_intermediate_size", default=ffn) if experts else ffn,
        gated=not plain,
        biases=plain,
        learned_positions=family in {"gpt2", "gpt_neo", "opt"},
        tied_embeddings=bool(config.get("tie_word_embeddings", plain)),
        experts=experts,
        experts_per_token=_number(config, "num_experts_per_tok", default=0) if experts else 0,
        shared_ffn=_shared_ffn(config) if experts else 0,
    )


def _shared_ffn(config: Mapping[str, object]) -> int:
    width = _number(config, "shared_expert_intermediate_size", default=0)
    shared = _number(config, "n_shared_experts", default=0)
    return width or shared * _number(config, "moe_intermediate_size", default=0)


def _number(config: Mapping[str, object], *names: str, default: int | None = None) -> int:
    for name in names:
        value = config.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if value is not None:
            raise ValueError(f"{name} is {value!r}; it must be a whole number")
    if default is None:
        raise ValueError(f"the model configuration has no {' or '.join(names)}")
    return default
