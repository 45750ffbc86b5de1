"""The shape of a transformer, and how many parameters it has."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from platform_core.jobs.transformer import inconsistencies


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A decoder. Zero means the usual value: `kv_heads` = heads, `head_width` = hidden / heads, `ffn` = 4 hidden,
    `value_width` = head width.

    With `experts`, every MLP but those of the first `dense_layers` is a mixture; `ffn` is then the width of one expert.
    With `kv_rank`, keys and values come from a vector of that width (multi-head latent attention, DeepSeek-AI 2024,
    arXiv 2405.04434, section 2.1), and `rope_width` of each head's keys is the same in all heads.
    With `window`, a token attends to the last so many tokens, itself among them, in all layers but `full_layers` (Jiang
    et al. 2023, arXiv 2310.06825, section 2); which layers these are does not matter here: each counts as their mean.
    """

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
    dense_layers: int = 0
    dense_ffn: int = 0  # width of their MLP; 0: 4 hidden
    kv_rank: int = 0
    query_rank: int = 0  # of the vector that queries come from; 0: from the hidden state
    rope_width: int = 0
    value_width: int = 0  # of one head
    window: int = 0
    full_layers: int = 0
    other_parameters: int = 0  # of a layer: norms and biases beside those counted
    embedding_width: int = (
        0  # of a token's embedding; 0: hidden. Otherwise two matrices lead to hidden and back
    )
    outer_parameters: int = 0  # outside of the layers, beside those counted

    def __post_init__(self) -> None:
        for name in ("layers", "hidden", "heads", "sequence", "vocabulary"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
        for name in NATURAL:
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
        for name, sentence in inconsistencies(self):
            raise ValueError(f"{name} {sentence}")

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
    def value(self) -> int:
        """Width of the values of one head."""
        return self.value_width or self.width

    @property
    def output_width(self) -> int:
        """Of all heads together, behind the attention."""
        return self.heads * self.value

    @property
    def kv_width(self) -> int:
        """Of the keys and the values."""
        return self.groups * (self.width + self.value)

    @property
    def latent_width(self) -> int:
        """Of the vectors that queries, keys and values come from, without the rotary part; 0 where there are none."""
        return self.query_rank + self.kv_rank

    @property
    def inner(self) -> int:
        return self.ffn or 4 * self.hidden

    @property
    def matrices(self) -> int:
        return 3 if self.gated else 2

    @property
    def norm_parameters(self) -> int:
        return 2 * self.hidden if self.biases else self.hidden

    def attention_matrices(self, heads: int, groups: int) -> tuple[tuple[int, int], ...]:
        """Rows and columns of the matrices around the attention of so many heads and key-value heads. Those that make
        the latent vectors do not depend on them: every tensor rank has them whole."""
        output = (heads * self.value, self.hidden)
        if not self.kv_rank:
            return (self.hidden, heads * self.width + groups * (self.width + self.value)), output
        queries = [(self.query_rank or self.hidden, heads * self.width)]
        if self.query_rank:
            queries.insert(0, (self.hidden, self.query_rank))
        keys = (self.kv_rank, heads * (self.width - self.rope_width + self.value))
        return *queries, (self.hidden, self.kv_rank + self.rope_width), keys, output

    @property
    def attention_weights(self) -> int:
        return sum(rows * columns for rows, columns in self.attention_matrices(self.heads, self.groups))

    @property
    def attention_parameters(self) -> int:
        biases = self.query_width + self.kv_width + self.hidden if self.biases else 0
        return self.attention_weights + self.latent_width + biases  # a norm over each latent vector

    @property
    def replicated_parameters(self) -> int:
        """Of a layer, those that every tensor rank has whole."""
        if not self.kv_rank:
            return 0
        return self.hidden * (self.latent_width + self.rope_width) + self.latent_width

    def mlp_parameters(self, inner: int) -> int:
        biases = (self.matrices - 1) * inner + self.hidden if self.biases else 0
        return self.matrices * self.hidden * inner + biases

    @property
    def dense_layer_parameters(self) -> int:
        """Of a layer behind the `dense_layers`, without its routed experts."""
        if not self.experts:
            mlp = self.mlp_parameters(self.inner)
        else:
            shared = self.mlp_parameters(self.shared_ffn) if self.shared_ffn else 0
            mlp = self.hidden * self.experts + shared  # router
        return self.attention_parameters + mlp + 2 * self.norm_parameters + self.other_parameters

    @property
    def expert_layer_parameters(self) -> int:
        return self.experts * self.mlp_parameters(self.inner) if self.experts else 0

    @property
    def block_parameters(self) -> int:
        each = self.dense_layer_parameters + self.expert_layer_parameters
        return (self.layers - self.dense_layers) * each + self.first_layers_parameters

    @property
    def first_layers_parameters(self) -> int:
        return self.dense_layers * first_layers(self).dense_layer_parameters if self.dense_layers else 0

    @property
    def token_width(self) -> int:
        """Of the embedding of a token, and of what the logits are computed from."""
        return self.embedding_width or self.hidden

    @property
    def token_parameters(self) -> int:
        """Of the embedding of tokens, and of the product that gives logits."""
        return self.vocabulary * self.token_width

    @property
    def embedding_parameters(self) -> int:
        """Before the first layer: tokens, and learned positions."""
        positions = self.sequence * self.hidden if self.learned_positions else 0
        widening = self.embedding_width * self.hidden
        return self.token_parameters + widening + positions + self.outer_parameters

    @property
    def head_parameters(self) -> int:
        """Behind the last layer, what is not shared with the embedding."""
        narrowing = self.embedding_width * self.hidden
        return self.norm_parameters + narrowing + (0 if self.tied_embeddings else self.token_parameters)

    @property
    def parameters(self) -> int:
        return self.block_parameters + self.embedding_parameters + self.head_parameters

    @property
    def active_parameters(self) -> int:
        """Those that one token passes."""
        if not self.experts:
            return self.parameters
        idle = (self.experts - self.experts_per_token) * self.mlp_parameters(self.inner)
        return self.parameters - (self.layers - self.dense_layers) * idle

    @property
    def active_inner(self) -> int:
        """Width of the MLP that one token passes."""
        return self.inner * self.experts_per_token + self.shared_ffn if self.experts else self.inner

    def flops(self, passes: int = 3) -> int:
        """Of one sequence. Three forward passes' worth of every layer, the numerator of MFU; four with full
        recomputation. Two for each weight and token that a product uses, the attention matrix twice, causal
        masking not deducted (Narayanan et al. 2021, arXiv 2104.04473, appendix)."""
        layers = (self.layers - self.dense_layers) * self.layer_flops
        if self.dense_layers:
            layers += self.dense_layers * first_layers(self).layer_flops
        layers += 2 * self.attended * (self.query_width + self.output_width)
        projections = 2 * self.embedding_width * self.hidden
        return passes * layers + 6 * self.sequence * (self.token_parameters + projections)

    @property
    def layer_flops(self) -> int:
        """Of the products with weights, of one sequence, forward, in a layer behind the `dense_layers`."""
        weights = self.attention_weights + self.hidden * self.experts
        weights += self.matrices * self.hidden * self.active_inner
        return 2 * self.sequence * weights

    @property
    def attended(self) -> int:
        """Pairs of tokens in the attention of all layers, masked ones counted as `flops` does: s^2 a layer. With a
        window w it is w (2 s - w): as many times the s w - w^2/2 pairs in the window as s^2 is times the s^2/2."""
        window = min(self.window or self.sequence, self.sequence)
        windowed = window * (2 * self.sequence - window)
        return (self.layers - self.full_layers) * windowed + self.full_layers * self.sequence**2


NATURAL = (
    "kv_heads", "head_width", "ffn", "experts", "experts_per_token", "shared_ffn", "dense_layers", "dense_ffn",
    "kv_rank", "query_rank", "rope_width", "value_width", "window", "full_layers",
    "other_parameters", "embedding_width", "outer_parameters",
)  # fmt: skip


@lru_cache(maxsize=256)
def first_layers(shape: ModelShape) -> ModelShape:
    """The shape of the `dense_layers`, as if all layers were such."""
    return replace(
        shape, experts=0, experts_per_token=0, shared_ffn=0, dense_layers=0, ffn=shape.dense_ffn, dense_ffn=0
    )


def gpt(layers: int, hidden: int, heads: int, sequence: int, vocabulary: int) -> ModelShape:
    """The shape of GPT-2 and GPT-3."""
    return ModelShape(layers, hidden, heads, sequence, vocabulary)
