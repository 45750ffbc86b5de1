"""How one training step is divided over GPUs, and the software that carries it out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from platform_core.jobs.parallel import Parallel
from platform_core.jobs.transformer import Precision, Recompute
from platform_core.parallelism.hardware import Cluster
from platform_core.parallelism.model_shape import ModelShape, first_layers


class Kernels(StrEnum):
    """How elementwise operators become kernels."""

    EAGER = "eager"  # one by one, norms and rotary embedding in fp32
    MEGATRON = "megatron"  # bias, dropout, activation and softmax by hand-written kernels
    COMPILED = "compiled"  # chains joined by a compiler


@dataclass(frozen=True, slots=True)
class Recipe:
    """What the training program does with one layout; the same for all plans of a comparison."""

    flash_attention: bool = True  # never writes the s x s matrix, and skips its masked half
    kernels: Kernels = Kernels.COMPILED
    dropout: bool = False
    gradient_bytes: int = 4  # of one parameter, accumulated
    reduce_bytes: int = 4  # of one parameter, sent
    optimizer_traffic: int = 34  # bytes of one parameter that the update reads and writes
    # of one logit, beside its fp32 value: in half precision, its logarithm, and gradients on the way back; without a
    # fused loss each is a tensor of its own. Where the vocabulary is divided, softmax is taken apart into more of them
    loss_bytes: int = 10
    parallel_loss_bytes: int = 14
    head_traffic: int = 20  # bytes of one logit that the loss reads and writes
    overlaps_gradients: bool = True  # reduced while the backward pass goes on
    overlaps_stages: bool = True  # activations travel between stages while others are computed
    kernel_us: float = 8.0  # of the host, to launch one kernel
    precision: Precision = Precision.BF16


# What a 2024 stack does: flash attention, compiled elementwise kernels, fused Adam, FSDP or a distributed
# optimizer.
MODERN = Recipe()
# Megatron-LM and Megatron-DeepSpeed of 2021/22: fp16 gradients reduced after the last micro-batch, apex Adam
# on fp32 copies (unscale, norm, clip, update, copy back: 60 bytes), loss in fp32 by nine elementwise kernels,
# blocking sends.
MEGATRON = Recipe(
    flash_attention=False,
    kernels=Kernels.MEGATRON,
    dropout=True,
    reduce_bytes=2,
    optimizer_traffic=60,
    loss_bytes=0,
    parallel_loss_bytes=0,
    head_traffic=50,
    overlaps_gradients=False,
    overlaps_stages=False,
    kernel_us=25.0,
)


@dataclass(frozen=True, slots=True)
class Layout:
    """Degrees of parallelism. `data` x `tensor` x `context` x `pipeline` GPUs; `expert` divides `data`.

    `zero`: 0 replicates, 1 shards the optimizer, 2 also the gradients, 3 also the parameters (FSDP). `shard`:
    data ranks over which it shards, the rest replicate (HSDP); 0 means all.
    """

    data: int = 1
    tensor: int = 1
    context: int = 1
    pipeline: int = 1
    virtual: int = 1  # model chunks on one stage (interleaved schedule)
    expert: int = 1
    micro_batch: int = 1
    zero: int = 0
    shard: int = 0
    sequence_parallel: bool = False
    recompute: Recompute = Recompute.NONE
    offload: bool = False  # the optimizer and its states live in the memory of the host

    def __post_init__(self) -> None:
        for name in ("data", "tensor", "context", "pipeline", "virtual", "expert", "micro_batch"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.zero not in (0, 1, 2, 3):
            raise ValueError(f"zero is {self.zero}; it must be 0, 1, 2 or 3")
        if self.shard and self.data % self.shard:
            raise ValueError(f"{self.data} data ranks cannot be divided into shards of {self.shard}")
        if self.data % self.expert:
            raise ValueError(f"{self.data} data ranks cannot be divided into {self.expert} expert ranks")
        if self.virtual > 1 and self.pipeline == 1:
            raise ValueError("interleaving needs more than one pipeline stage")

    @property
    def gpus(self) -> int:
        return self.data * self.tensor * self.context * self.pipeline

    @property
    def parallel(self) -> Parallel:
        """As a job file has it. ZeRO 1 and 2, micro-batches, chunks and recomputation are the script's."""
        fsdp = (self.shard or self.data) if self.zero == 3 else 1
        copies = self.data // fsdp
        return Parallel(
            dp=copies if copies > 1 else None, fsdp=fsdp, tp=self.tensor, sp=self.sequence_parallel and self.tensor > 1,
            cp=self.context, pp=self.pipeline, ep=self.expert,
        )  # fmt: skip

    @property
    def shards(self) -> int:
        """Ranks over which ZeRO divides. Context ranks hold the same weights, so they share them out as
        well."""
        return (self.shard or self.data) * self.context if self.zero else 1

    @property
    def expert_shards(self) -> int:
        """The same of routed experts, which fewer ranks hold in common."""
        return max(1, self.shards // self.expert)

    @property
    def passes(self) -> int:
        """Through the collectives of a layer: forward, backward, and forward again."""
        return 3 if self.recompute is Recompute.FULL else 2

    def micro_batches(self, global_batch: int) -> int:
        return global_batch // (self.data * self.micro_batch)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a layout cannot be used: a code for programs, a sentence for people, and its numbers."""

    code: str
    needed: int
    limit: int
    sentence: str


def refusals(shape: ModelShape, layout: Layout, cluster: Cluster, global_batch: int) -> tuple[Refusal, ...]:
    """What forbids the layout, memory aside."""
    checks = (
        _within("gpus", layout.gpus, cluster.gpus, "GPUs"),
        _divides(
            "batch", layout.data * layout.micro_batch, global_batch, "data ranks x micro-batch", "samples"
        ),
        _divides("heads", layout.tensor, shape.heads, "tensor ranks", "heads"),
        _divides("ffn", layout.tensor, shape.inner, "tensor ranks", "columns of the MLP"),
        _divides(
            "ffn",
            layout.tensor,
            first_layers(shape).inner,
            "tensor ranks",
            "columns of the dense layers' MLP",
        )
        if shape.dense_layers
        else None,
        _shared_heads(shape, layout),
        _divides("sequence", layout.context, shape.sequence // 2, "context ranks", "pairs of tokens"),
        _within("layers", layout.pipeline * layout.virtual, shape.layers, "chunks of layers"),
        _divides("experts", layout.expert, shape.experts, "expert ranks", "experts"),
        _chunked(shape, layout),
        _interleaved(layout, global_batch),
    )
    return tuple(refusal for refusal in checks if refusal)


def _within(code: str, needed: int, limit: int, things: str) -> Refusal | None:
    if needed <= limit:
        return None
    return Refusal(code, needed, limit, f"needs {needed:,} {things}; there are {limit:,}")


def _divides(code: str, divisor: int, total: int, parts: str, things: str) -> Refusal | None:
    if divisor == 1 or (total >= divisor and total % divisor == 0):
        return None
    return Refusal(code, divisor, total, f"{total:,} {things} cannot be divided by {divisor:,} {parts}")


def _shared_heads(shape: ModelShape, layout: Layout) -> Refusal | None:
    many, few = max(shape.groups, layout.tensor), min(shape.groups, layout.tensor)
    if many % few == 0:
        return None
    sentence = f"{shape.groups} key-value heads and {layout.tensor} tensor ranks do not divide each other"
    return Refusal("kv_heads", layout.tensor, shape.groups, sentence)


def _chunked(shape: ModelShape, layout: Layout) -> Refusal | None:
    if layout.virtual == 1:
        return None
    return _divides("chunks", layout.pipeline * layout.virtual, shape.layers, "chunks", "layers")


def _interleaved(layout: Layout, global_batch: int) -> Refusal | None:
    """Megatron's interleaved schedule takes micro-batches in rounds of one for each stage."""
    if layout.virtual == 1:
        return None
    count = layout.micro_batches(global_batch)
    return _divides("interleaving", layout.pipeline, count, "stages", "micro-batches")
