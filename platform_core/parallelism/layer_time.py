"""Seconds of one transformer layer, of the embedding and of the loss, for one micro-batch on one rank.

The traffic of elementwise kernels follows from what each reads and writes in the layer of Korthikanti et al.
2022 (arXiv 2205.05198, figures 2 to 4), in bytes of one element of a tensor.
"""

from __future__ import annotations

from dataclasses import dataclass

from platform_core.jobs.transformer import Precision, Recompute
from platform_core.parallelism.hardware import Gpu
from platform_core.parallelism.layout import Kernels, Layout, Recipe
from platform_core.parallelism.model_shape import ModelShape
from platform_core.parallelism.operators import flash, matmul, stream

# Kernels that the host launches for a layer, with the work of autograd around them counted in launches.
FORWARD_KERNELS, BACKWARD_KERNELS, COMPILED_SHARE = 30, 50, 0.5
TENSOR_KERNELS = 4  # around a collective of tensor parallelism, in each direction


@dataclass(frozen=True, slots=True)
class Work:
    """Seconds on the device, and kernels that the host launches meanwhile."""

    seconds: float = 0.0
    kernels: float = 0.0

    def __add__(self, other: Work) -> Work:
        return Work(self.seconds + other.seconds, self.kernels + other.kernels)


@dataclass(frozen=True, slots=True)
class LayerWork:
    forward: Work
    backward: Work
    again: Work  # recomputed before the backward pass


@dataclass(frozen=True, slots=True)
class Slice:
    """What one rank sees of the model: its tokens, and its share of the widths."""

    gpu: Gpu
    shape: ModelShape
    layout: Layout
    recipe: Recipe

    @property
    def length(self) -> int:
        return self.shape.sequence // self.layout.context

    @property
    def tokens(self) -> int:
        return self.layout.micro_batch * self.length

    @property
    def full_rows(self) -> int:
        """Tokens that norms, dropout and residuals of this rank pass."""
        return self.tokens // self.layout.tensor if self.layout.sequence_parallel else self.tokens

    @property
    def heads(self) -> int:
        return -(-self.shape.heads // self.layout.tensor)

    @property
    def kv_heads(self) -> int:
        return -(-self.shape.groups // self.layout.tensor)


def layer(part: Slice) -> LayerWork:
    """One layer, forward and backward, and what of it is computed again."""
    core_forward, core_backward = _attention(part)
    linear_forward, linear_backward = _linears(part)
    other_forward, other_backward = _elementwise(part)
    share = COMPILED_SHARE if part.recipe.kernels is Kernels.COMPILED else 1.0
    forward = core_forward + linear_forward + other_forward + Work(0.0, FORWARD_KERNELS * share)
    backward = core_backward + linear_backward + other_backward + Work(0.0, BACKWARD_KERNELS * share)
    again = Work()
    if part.layout.recompute is Recompute.FULL:
        again = forward
    elif part.layout.recompute is Recompute.OPERATORS:
        again = Work(linear_forward.seconds / 2) + other_forward + Work(0.0, FORWARD_KERNELS * share / 2)
    elif part.layout.recompute is Recompute.SELECTIVE:
        again = other_forward if part.recipe.flash_attention else core_forward
        again += Work(0.0, FORWARD_KERNELS * share / 5)
    return LayerWork(forward, backward, again)


def _linears(part: Slice) -> tuple[Work, Work]:
    """Each product once forward and twice backward: for its input and for its weight."""
    shape, t = part.shape, part.layout.tensor
    around = shape.attention_matrices(part.heads, part.kv_heads)
    sizes = [(part.tokens, rows, columns, 1) for rows, columns in around]
    if not shape.experts:
        sizes += _mlp(shape, part.tokens, shape.inner // t, 1)
    else:
        local = max(1, shape.experts // part.layout.expert)
        rows = max(1, part.tokens * shape.experts_per_token // local)
        sizes += _mlp(shape, rows, shape.inner // t, local)
        sizes.append((part.tokens, shape.hidden, shape.experts, 1))
        if shape.shared_ffn:
            sizes += _mlp(shape, part.tokens, shape.shared_ffn // t, 1)
    fp8 = part.recipe.precision is Precision.FP8
    forward = backward = 0.0
    for rows, inner, columns, batch in sizes:
        forward += matmul(part.gpu, rows, columns, inner, batch, fp8)
        backward += matmul(part.gpu, rows, inner, columns, batch, fp8)
        backward += matmul(part.gpu, inner, columns, rows, batch, fp8)
    return Work(forward), Work(backward)


def _mlp(shape: ModelShape, rows: int, inner: int, batch: int) -> list[tuple[int, int, int, int]]:
    first = 2 * inner if shape.gated else inner
    return [(rows, shape.hidden, first, batch), (rows, inner, shape.hidden, batch)]


def _attention(part: Slice) -> tuple[Work, Work]:
    """Without flash attention a window is a mask over the whole matrix, which saves nothing."""
    if part.recipe.flash_attention:
        return _flash(part)
    gpu, shape = part.gpu, part.shape
    batch, own, all_keys = part.layout.micro_batch * part.heads, part.length, shape.sequence
    cells = batch * own * all_keys
    scores = matmul(gpu, own, all_keys, shape.width, batch)
    mixed = matmul(gpu, own, shape.value, all_keys, batch)
    forward = scores + mixed + stream(gpu, 4 * cells)  # scale, mask and softmax in one kernel
    backward = 2 * (scores + mixed) + stream(gpu, 6 * cells)
    if part.recipe.dropout:
        forward += stream(gpu, 5 * cells)
        backward += stream(gpu, 5 * cells)
    if batch % 4 == 0:
        return Work(forward), Work(backward)
    # Megatron's softmax kernel takes multiples of four (fused_softmax.py, is_kernel_available); otherwise it
    # casts to fp32, scales, masks, and casts back one by one
    return Work(forward + stream(gpu, 30 * cells, 7), 8), Work(backward + stream(gpu, 18 * cells, 4), 5)


def _flash(part: Slice) -> tuple[Work, Work]:
    """Half of the s x s matrix, and of that only the tiles that a window touches; the backward pass computes the
    scores again: three products over the width of a head and two over that of its values, instead of one and one."""
    shape = part.shape
    whole = part.layout.micro_batch * part.length * shape.sequence * part.heads
    cells = whole * shape.attended / (shape.layers * shape.sequence**2)  # two FLOPs for each half of them
    traffic = 2 * part.tokens * (part.heads + part.kv_heads) * (shape.width + shape.value)
    forward = flash(part.gpu, cells * (shape.width + shape.value), traffic, backward=False)
    backward = flash(part.gpu, cells * (3 * shape.width + 2 * shape.value), 2 * traffic, backward=True)
    return Work(forward), Work(backward)


# Bytes that elementwise kernels read and write for one element of the hidden width (norm and residual, twice
# in a layer), of the MLP's width (activation) and of the heads' width (transposes, rotary embedding): forward,
# backward. Eager norms and rotary embeddings go through fp32 step by step.
TRAFFIC = {
    Kernels.EAGER: ((84, 150), (10, 20), (20, 30)),
    Kernels.MEGATRON: ((20, 46), (4, 8), (4, 6)),
    Kernels.COMPILED: ((16, 28), (6, 10), (4, 6)),
}
NORMS = 4  # passes over the hidden width in a layer: two norms, two residuals
MASK_TRAFFIC = 2  # of dropout, in each direction


def _elementwise(part: Slice) -> tuple[Work, Work]:
    """Norms, residuals and dropout over the hidden width; activation over the MLP; transposes of the
    attention."""
    shape, t = part.shape, part.layout.tensor
    rows = part.full_rows * shape.hidden
    latent = part.full_rows * shape.latent_width / NORMS  # its norms alone
    inner = part.tokens * shape.active_inner // t
    heads = part.tokens * part.heads * (shape.width + shape.value) / 2
    masks = MASK_TRAFFIC * rows if part.recipe.dropout else 0
    moved = part.tokens * shape.experts_per_token * shape.hidden  # permuted, and combined by weight
    cast = (
        3 * (4 * rows + inner) if part.recipe.precision is Precision.FP8 else 0
    )  # largest value, and the cast
    of_hidden, of_inner, of_heads = TRAFFIC[part.recipe.kernels]
    forward, backward = (
        (rows + latent) * of_hidden[way]
        + inner * of_inner[way]
        + heads * of_heads[way]
        + masks
        + 12 * moved
        + cast
        for way in (0, 1)
    )
    return Work(stream(part.gpu, forward, 9)), Work(stream(part.gpu, backward, 16))


def embedding(part: Slice) -> Work:
    """Looked up forward, added up backward, and dropped out in between."""
    return Work(stream(part.gpu, part.tokens * part.shape.hidden * 20, 8), 20)


def head(part: Slice) -> Work:
    """Final norm, logits and cross entropy, forward and backward; nobody computes the logits again."""
    shape, gpu = part.shape, part.gpu
    columns = -(-shape.vocabulary // part.layout.tensor)
    width = shape.token_width
    products = matmul(gpu, part.tokens, columns, width) + matmul(gpu, part.tokens, width, columns)
    products += matmul(gpu, width, columns, part.tokens)
    if (
        shape.embedding_width
    ):  # to the hidden state behind the embedding and back, each forward and twice backward
        products += 6 * matmul(gpu, part.tokens, width, shape.hidden)
    loss = stream(gpu, part.tokens * columns * part.recipe.head_traffic, 15)
    return Work(products + loss, 40)


def optimizer_step(gpu: Gpu, parameters: int, recipe: Recipe) -> float:
    """Unscaling, norm, clipping and Adam: all of it memory traffic."""
    return stream(gpu, parameters * recipe.optimizer_traffic, 10)
