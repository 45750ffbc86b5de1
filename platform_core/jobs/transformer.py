"""The model that a job trains, in numbers, and how its script divides a step: what the planner has to know of it.

The block says nothing to the script. With it the platform estimates memory, step time, days and cost before the job
starts, and compares what it measures with what the planner predicted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from platform_core.jobs.fields import Group, described
from platform_core.jobs.kinds import choice, scaled, truth, whole
from platform_core.jobs.parallel import Parallel
from platform_core.jobs.reader import Reader

BILLION = 10**9


class Recompute(StrEnum):
    """What is computed again in the backward pass instead of being kept."""

    NONE = "none"
    # the core of attention (Korthikanti et al. 2022, section 5); with flash attention, which keeps nothing of it, norms
    # and activations instead (Megatron Core, recompute modules layernorm and mlp)
    SELECTIVE = "selective"
    # every second matrix product, and norms and activations (torchtitan, selective checkpoints by operator)
    OPERATORS = "operators"
    FULL = "full"  # all of a layer


class Precision(StrEnum):
    BF16 = "bf16"
    FP8 = "fp8"  # matrix products only


@dataclass(frozen=True, slots=True)
class ModelNumbers:
    """A decoder in numbers; 0 is the usual value."""

    layers: int = described(whole(0, 10_000), "Layers", "Transformer layers.", Group.SHAPE, default=0)
    hidden: int = described(whole(0, 10**6), "Hidden size", "Width of a token.", Group.SHAPE, default=0)
    heads: int = described(whole(0, 10_000), "Attention heads", "Of the queries.", Group.SHAPE, default=0)
    vocabulary: int = described(whole(1, 10**7), "Vocabulary", "Tokens.", Group.SHAPE, default=50_257)
    kv_heads: int = described(
        whole(0, 10_000), "Key-value heads", "0: as many as attention heads.", Group.SHAPE, default=0
    )
    head_width: int = described(
        whole(0, 10**5), "Head width", "0: hidden size over heads.", Group.SHAPE, default=0
    )
    ffn: int = described(
        whole(0, 10**7),
        "MLP width",
        "Of one expert in a mixture. 0: four times hidden.",
        Group.SHAPE,
        default=0,
    )
    gated: bool = described(truth(), "Gated MLP", "SwiGLU: three matrices.", Group.SHAPE, default=True)
    biases: bool = described(
        truth(), "Biases", "Linear biases and LayerNorm, as in GPT.", Group.SHAPE, default=False
    )
    learned_positions: bool = described(
        truth(), "Learned positions", "As in GPT; otherwise rotary.", Group.SHAPE, default=False
    )
    tied_embeddings: bool = described(
        truth(), "Tied embeddings", "Input and output share weights.", Group.SHAPE, default=False
    )
    experts: int = described(whole(0, 10_000), "Experts", "0: a dense model.", Group.SHAPE, default=0)
    experts_per_token: int = described(
        whole(0, 1_000), "Experts per token", "Of a mixture.", Group.SHAPE, default=0
    )
    shared_ffn: int = described(
        whole(0, 10**7), "Shared expert width", "That every token passes.", Group.SHAPE, default=0
    )
    dense_layers: int = described(
        whole(0, 10_000), "Dense layers", "The first ones of a mixture, without experts.", Group.SHAPE, default=0
    )  # fmt: skip
    dense_ffn: int = described(
        whole(0, 10**7), "MLP width of dense layers", "0: four times hidden.", Group.SHAPE, default=0
    )
    kv_rank: int = described(
        whole(0, 10**6), "Key-value rank", "Of multi-head latent attention; 0: it has none.", Group.SHAPE, default=0
    )  # fmt: skip
    query_rank: int = described(
        whole(0, 10**6), "Query rank", "Of latent attention; 0: queries come from the hidden state.", Group.SHAPE,
        default=0,
    )  # fmt: skip
    rope_width: int = described(
        whole(0, 10**5), "Rotary width", "Of a head, the part that latent attention rotates.", Group.SHAPE, default=0
    )  # fmt: skip
    value_width: int = described(
        whole(0, 10**5), "Value width", "Of one head. 0: head width.", Group.SHAPE, default=0
    )
    window: int = described(
        whole(0, 10**7), "Attention window", "Tokens that a token sees; 0: all before it.", Group.SHAPE, default=0
    )  # fmt: skip
    full_layers: int = described(
        whole(0, 10_000), "Layers without window", "Of a model with a window, those that see the whole sequence.",
        Group.SHAPE, default=0,
    )  # fmt: skip
    other_parameters: int = described(
        whole(0, 10**9), "Other parameters", "Of a layer: norms and biases that the fields above leave out.",
        Group.SHAPE, default=0,
    )  # fmt: skip
    embedding_width: int = described(
        whole(0, 10**6), "Embedding width", "Of a token before it is widened to the hidden size. 0: the hidden size.",
        Group.SHAPE, default=0,
    )  # fmt: skip
    outer_parameters: int = described(
        whole(0, 10**9), "Outer parameters", "Outside of the layers: what the fields above leave out.",
        Group.SHAPE, default=0,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Transformer(ModelNumbers):
    """Given with `layers`, `hidden`, `heads`, `sequence` and `global_batch`, or not at all."""

    sequence: int = described(
        whole(0, 10**7), "Sequence length", "Tokens of one sample.", Group.SHAPE, default=0
    )
    global_batch: int = described(
        whole(0, 10**7), "Global batch", "Sequences of one step, of all ranks.", Group.SHAPE, default=0
    )
    tokens: int = described(
        scaled(BILLION, 10**6, positive=False), "Training tokens (billions)", "For the days and the cost.",
        Group.SHAPE, default=0, name="tokens_billions",
    )  # fmt: skip
    precision: Precision = described(  # noqa: RUF009
        choice(Precision), "Precision", "Of matrix products.", Group.SHAPE, default=Precision.BF16
    )
    micro_batch: int = described(
        whole(1, 10**6), "Micro-batch", "Sequences that a rank computes at once.", Group.SHAPE, default=1
    )
    recompute: Recompute = described(  # noqa: RUF009
        choice(Recompute), "Recompute", "What is computed again in the backward pass.", Group.SHAPE,
        default=Recompute.NONE,
    )  # fmt: skip
    zero: int = described(
        whole(0, 2),
        "ZeRO stage",
        "Of copies (dp): 1 shards the optimizer, 2 also the gradients. FSDP is the layout's.",
        Group.SHAPE,
        default=0,
    )
    virtual: int = described(
        whole(1, 1_000), "Chunks a stage", "Of an interleaved pipeline.", Group.SHAPE, default=1
    )

    @property
    def is_given(self) -> bool:
        return self != NONE


NONE = Transformer()
_NEEDED = ("layers", "hidden", "heads", "sequence", "global_batch")


class Decoder(Protocol):
    """What `inconsistencies` looks at."""

    @property
    def layers(self) -> int: ...
    @property
    def heads(self) -> int: ...
    @property
    def kv_heads(self) -> int: ...
    @property
    def head_width(self) -> int: ...
    @property
    def experts(self) -> int: ...
    @property
    def dense_layers(self) -> int: ...
    @property
    def window(self) -> int: ...
    @property
    def full_layers(self) -> int: ...
    @property
    def kv_rank(self) -> int: ...
    @property
    def query_rank(self) -> int: ...
    @property
    def rope_width(self) -> int: ...


def inconsistencies(model: Decoder) -> Iterator[tuple[str, str]]:
    """Fields of dense layers, of windows and of latent attention that contradict each other, each with a clause."""
    if model.dense_layers and not model.experts:
        yield "dense_layers", f"is {model.dense_layers}; only a mixture of experts has layers without them"
    elif model.dense_layers and model.dense_layers >= model.layers:
        yield (
            "dense_layers",
            f"is {model.dense_layers} of {model.layers} layers, which leaves none for the experts",
        )
    if model.full_layers and not model.window:
        yield "full_layers", f"is {model.full_layers}; without a window all layers see the whole sequence"
    elif model.full_layers and model.full_layers >= model.layers:
        yield (
            "full_layers",
            f"is {model.full_layers} of {model.layers} layers, which leaves none for the window",
        )
    if not model.kv_rank:
        if model.query_rank or model.rope_width:
            yield "kv_rank", "is missing; query_rank and rope_width belong to latent attention, which has one"
        return
    if not model.head_width:
        yield "head_width", "is missing; latent attention needs it: the rotary part of a head and the rest"
    elif model.rope_width >= model.head_width:
        yield "rope_width", f"is {model.rope_width}, which leaves nothing of a head of {model.head_width}"
    if model.kv_heads not in (0, model.heads):
        yield (
            "kv_heads",
            f"is {model.kv_heads}; in latent attention all {model.heads} heads have keys of their own",
        )


def check(read: Reader, num_gpus: int, parallel: Parallel, transformer: Transformer) -> None:
    """Whole or absent; the batch divides over the data ranks."""
    if not transformer.is_given:
        return
    for name in _NEEDED:
        field = f"transformer.{name}"
        if read.sound(field) and not getattr(transformer, name):
            read.say(field, "is missing; an estimate needs layers, hidden, heads, sequence and global_batch")
    if not read.sound("num_gpus", *(f"transformer.{name}" for name in (*_NEEDED, "head_width", "kv_heads"))):
        return
    hidden, heads, keys = transformer.hidden, transformer.heads, transformer.kv_heads
    if not transformer.head_width and hidden % heads:
        read.say("transformer.hidden", f"is {hidden}, which {heads} heads do not divide; state head_width")
    if keys and heads % keys:
        read.say("transformer.kv_heads", f"is {keys}, which does not divide the {heads} heads")
    if transformer.experts and not 1 <= transformer.experts_per_token <= transformer.experts:
        passed = f"is {transformer.experts_per_token}; a token passes 1 to {transformer.experts} experts"
        read.say("transformer.experts_per_token", passed)
    for name, sentence in inconsistencies(transformer):
        read.say(f"transformer.{name}", sentence)
    if num_gpus % parallel.copy:
        return  # the layout says so
    ranks = num_gpus // parallel.copy * parallel.fsdp
    if parallel.is_given and transformer.global_batch % (ranks * transformer.micro_batch):
        batch, size = transformer.global_batch, transformer.micro_batch
        divided = f"{ranks} data ranks with micro-batches of {size} do not divide"
        read.say(
            "transformer.global_batch", f"is {batch}, which {divided}; choose a multiple of {ranks * size}"
        )
