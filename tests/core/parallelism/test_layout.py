"""What a layout may be, and why another may not."""

from dataclasses import replace
from math import prod

import pytest

from platform_core.jobs.parallel import Parallel
from platform_core.parallelism.hardware import Cluster, gpu_of
from platform_core.parallelism.layout import Layout, refusals
from platform_core.parallelism.plan import title
from tests.core.parallelism.shapes import GPT_3, LLAMA_8B, MIXTRAL, a100


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"tensor": 0}, "tensor is 0; it must be at least 1"),
        ({"zero": 4}, "zero is 4; it must be 0, 1, 2 or 3"),
        ({"data": 8, "shard": 3}, "8 data ranks cannot be divided into shards of 3"),
        ({"data": 8, "expert": 3}, "8 data ranks cannot be divided into 3 expert ranks"),
        ({"virtual": 2}, "interleaving needs more than one pipeline stage"),
    ],
)
def test_an_impossible_layout_is_refused_with_its_numbers(change: dict[str, int], sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{sentence}$"):
        Layout(**change)


@pytest.mark.parametrize(
    ("layout", "batch", "sentence"),
    [
        (Layout(data=128), 128, "needs 128 GPUs; there are 64"),
        (Layout(data=8, micro_batch=2), 40, "40 samples cannot be divided by 16 data ranks x micro-batch"),
        (Layout(tensor=64), 64, "32 heads cannot be divided by 64 tensor ranks"),
        (Layout(pipeline=33), 64, "needs 33 chunks of layers; there are 32"),
        (Layout(pipeline=8, virtual=3), 64, "32 layers cannot be divided by 24 chunks"),
        (Layout(pipeline=8, virtual=2), 12, "12 micro-batches cannot be divided by 8 stages"),
        (Layout(context=3), 64, "4,096 pairs of tokens cannot be divided by 3 context ranks"),
    ],
)
def test_a_layout_that_model_or_cluster_forbid_says_why(layout: Layout, batch: int, sentence: str) -> None:
    assert sentence in [refusal.sentence for refusal in refusals(LLAMA_8B, layout, a100(8), batch)]


def test_a_layout_that_nothing_forbids_is_not_refused() -> None:
    assert refusals(GPT_3, Layout(tensor=8, pipeline=8, virtual=3), a100(8), 64) == ()
    assert refusals(MIXTRAL, Layout(data=8, expert=8), a100(1), 64) == ()


def test_key_value_heads_and_tensor_ranks_must_divide_each_other() -> None:
    odd = replace(LLAMA_8B, heads=30, head_width=128, kv_heads=10)
    sentences = [refusal.sentence for refusal in refusals(odd, Layout(tensor=6), a100(1), 8)]
    assert "10 key-value heads and 6 tensor ranks do not divide each other" in sentences


def test_a_cluster_holds_what_a_layout_needs() -> None:
    assert a100(1).holding(64).nodes == 8
    half = a100(4).holding(4)
    assert (half.gpus, half.network_share) == (4, a100(4).network_share)
    with pytest.raises(ValueError, match="has none"):
        Cluster(gpu_of("h200"), 0)
    with pytest.raises(ValueError, match="oversubscription"):
        Cluster(gpu_of("h200"), 1, oversubscription=0.5)


def test_a_gpu_is_found_by_the_beginning_of_its_name() -> None:
    assert gpu_of("h200").name == "h200-141gb"
    assert gpu_of("h100").name == "h100-80gb"
    assert gpu_of("a100-40gb").memory_bytes == 40 * 1024**3
    with pytest.raises(ValueError, match=r"^'h1' is not a known GPU; known are v100-32gb, "):
        gpu_of("h1")


@pytest.mark.parametrize(
    ("layout", "name"),
    [
        (Layout(), "DDP 1"),
        (Layout(data=8), "DDP 8"),
        (Layout(data=64, tensor=8, zero=3), "FSDP 64 x TP 8"),
        (Layout(data=64, zero=3, shard=8), "HSDP 64"),
        (Layout(4, 8, 1, 16, 3, zero=1), "DP 4 (ZeRO 1) x TP 8 x PP 16 x 3 chunks"),
        (Layout(2, 8, 4, zero=0, offload=True), "DP 2 x TP 8 x CP 4, optimizer offloaded"),
    ],
)
def test_a_layout_has_the_name_that_people_use(layout: Layout, name: str) -> None:
    assert title(layout) == name


@pytest.mark.parametrize(
    ("layout", "parallel"),
    [
        (Layout(data=8), Parallel(dp=8)),
        (Layout(data=8, zero=1, tensor=2), Parallel(dp=8, tp=2)),
        (Layout(data=8, zero=3, tensor=2, sequence_parallel=True), Parallel(fsdp=8, tp=2, sp=True)),
        (Layout(data=8, zero=3, shard=4, pipeline=2), Parallel(dp=2, fsdp=4, pp=2)),
        (Layout(data=4, zero=3, expert=4, context=2), Parallel(fsdp=4, ep=4, cp=2)),
        (Layout(), Parallel()),
    ],
)
def test_a_layout_is_what_a_job_file_says(layout: Layout, parallel: Parallel) -> None:
    assert layout.parallel == parallel
    dimensions = parallel.sized(layout.gpus).dimensions
    assert prod(size for _, size in dimensions) == layout.gpus
