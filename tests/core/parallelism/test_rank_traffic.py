"""The bytes by which rank order is chosen are those whose seconds the planner computes."""

from __future__ import annotations

import pytest

from platform_core.jobs.spec import JobSpec, parse
from platform_core.parallelism.collectives import CALL, NETWORK_LATENCY, NETWORK_SHARE
from platform_core.parallelism.communication import data_seconds
from platform_core.parallelism.hardware import Cluster, gpu_of
from platform_core.parallelism.job_plan import shape_of_job
from platform_core.parallelism.layout import MODERN, Layout
from platform_core.parallelism.memory import stage_parameters
from platform_core.parallelism.model_shape import ModelShape, gpt
from platform_core.parallelism.rank_traffic import data_bytes, rank_traffic, stage_bytes

GPT = gpt(32, 4096, 32, 2048, 51200)
MIXTURE = ModelShape(8, 1024, 16, 2048, 32000, gated=True, experts=8, experts_per_token=2)
FLAT = Cluster(gpu_of("a100-80gb"), 64, 1, 25e9)  # one GPU a node: every rank sends by the network


def job(**parallel: int) -> JobSpec:
    shape = {
        "layers": 32,
        "hidden": 4096,
        "heads": 32,
        "sequence": 2048,
        "vocabulary": 51200,
        "global_batch": 64,
    }
    named = {
        "name": "a",
        "team": "vision",
        "command": "python train.py",
        "gpu_type": "a100-80gb",
        "num_gpus": 16,
    }
    return parse({**named, "transformer": shape, "parallel": parallel})


def test_a_job_with_stages_is_known_and_its_data_groups_send_more() -> None:
    spec = job(pp=2)
    traffic, shape = rank_traffic(spec), shape_of_job(spec)
    assert traffic is not None
    assert shape is not None
    # 8 micro-batches of 2048 x 4096 activations in two bytes, there and back
    assert traffic.pipeline == 2 * 8 * 2048 * 4096 * 2
    assert traffic.data == round(2 * 7 / 8 * 4 * stage_parameters(shape, Layout(data=8, pipeline=2), 0))


def test_nothing_is_known_without_stages_or_without_a_model() -> None:
    assert rank_traffic(job(tp=2)) is None
    plain = {
        "name": "a",
        "team": "vision",
        "command": "python train.py",
        "gpu_type": "a100-80gb",
        "num_gpus": 16,
    }
    assert rank_traffic(parse({**plain, "parallel": {"pp": 2}})) is None


def test_a_tensor_rank_sends_its_slice_and_every_chunk_is_sent() -> None:
    whole = stage_bytes(GPT, Layout(pipeline=4, data=2), 16)
    assert stage_bytes(GPT, Layout(pipeline=4, data=2, tensor=4), 16) == whole // 4
    assert stage_bytes(GPT, Layout(pipeline=4, data=2, virtual=2), 16) == 2 * whole
    assert stage_bytes(GPT, Layout(data=8), 16) == 0


@pytest.mark.parametrize(
    ("shape", "layout"),
    [
        (GPT, Layout(data=8, pipeline=2)),
        (GPT, Layout(data=8, pipeline=2, zero=1)),
        (GPT, Layout(data=8, pipeline=2, zero=2)),
        (GPT, Layout(data=8, pipeline=2, zero=3)),
        (GPT, Layout(data=8, pipeline=2, zero=3, shard=2)),
        (GPT, Layout(data=4, context=2, pipeline=2, zero=1)),
        (MIXTURE, Layout(data=8, expert=4, pipeline=2)),
    ],
)
def test_bytes_over_the_rate_are_the_seconds_of_the_planner(shape: ModelShape, layout: Layout) -> None:
    moved = data_seconds(shape, layout, FLAT, MODERN)
    rounds = 16
    scatters = rounds if layout.zero >= 2 else 1
    seconds = 2 * rounds * moved.gather + scatters * moved.scatter + moved.finish
    sent = data_bytes(shape, layout, MODERN, rounds) / (FLAT.network_rate * NETWORK_SHARE)
    started = 4 * rounds * (2 * CALL + 16 * NETWORK_LATENCY)  # the latencies, which have no bytes
    assert sent == pytest.approx(seconds, abs=started)
    assert sent > started
