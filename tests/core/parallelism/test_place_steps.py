"""What a step takes on the places that a job could get, and on the one that it has."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.cluster.rank_order import links_between_racks
from platform_core.parallelism.collectives import Group, leaves_rack
from platform_core.parallelism.hardware import Cluster, gpu_of
from platform_core.parallelism.job_plan import predict
from platform_core.parallelism.place_steps import place_steps, planned_ms
from tests.core.parallelism.test_job_plan import GPT_SMALL, job

NODE = Cluster(gpu_of("a100-80gb"), 1, 8, 12.5e9, oversubscription=8.0)
WIDE = {**GPT_SMALL, "hidden": 4096, "heads": 32, "layers": 16}


def test_places_on_more_nodes_than_needed_take_longer() -> None:
    steps = place_steps(job(8, WIDE, parallel={"fsdp": 8}), NODE)
    assert (steps[0].nodes, steps[0].racks) == (1, 1)
    assert {step.nodes for step in steps} == {1, 2, 4}
    assert [step.step_us for step in steps] == sorted(step.step_us for step in steps)


def test_racks_count_only_where_the_network_between_them_is_thinner() -> None:
    spec = job(32, WIDE, parallel={"fsdp": 32})
    on_four = {step.racks: step.step_us for step in place_steps(spec, NODE) if step.nodes == 4}
    assert on_four[1] < on_four[max(on_four)]
    even = place_steps(spec, replace(NODE, oversubscription=1.0))
    assert [(step.nodes, step.racks) for step in even if step.nodes == 4] == [(4, 4)]


def test_a_tensor_group_is_never_cut() -> None:
    steps = place_steps(job(16, WIDE, parallel={"tp": 8, "dp": 2}), NODE)
    assert {step.nodes for step in steps} == {2}


def test_of_a_job_without_layout_no_place_is_known() -> None:
    assert place_steps(job(8), NODE) == ()
    assert place_steps(job(8, GPT_SMALL), NODE) == ()


def test_the_whole_training_is_its_steps_on_the_fastest_place() -> None:
    spec = job(8, {**GPT_SMALL, "tokens_billions": 1}, parallel={"dp": 8})
    steps = place_steps(spec, NODE)
    count = -(-(10**9) // (64 * 1024))
    assert planned_ms(spec, steps) == count * steps[0].step_us // 1_000
    assert planned_ms(job(8, GPT_SMALL, parallel={"dp": 8}), steps) == 0


@given(st.sampled_from([8, 16, 32]), st.sampled_from([1.0, 5.0, 25.0, 100.0]))
def test_more_racks_are_never_faster(gpus: int, gigabytes: float) -> None:
    node = replace(NODE, network_rate=gigabytes * 1e9)
    steps = place_steps(job(gpus, GPT_SMALL, parallel={"fsdp": gpus}), node)
    for nodes in {step.nodes for step in steps}:
        by_racks = sorted((step for step in steps if step.nodes == nodes), key=lambda step: step.racks)
        assert [step.step_us for step in by_racks] == sorted({step.step_us for step in by_racks})


def test_a_place_in_two_racks_has_the_order_of_nodes_that_the_scheduler_gives_it() -> None:
    """Gradients of 3.3 B parameters are far more than the activations between stages: data groups stay in a rack."""
    spec = job(32, WIDE, parallel={"dp": 16, "pp": 2})
    by_stage = predict(spec, 32, replace(NODE, nodes=4, racks=(0, 0, 1, 1)))
    by_column = predict(spec, 32, replace(NODE, nodes=4, racks=(0, 1, 0, 1)))
    assert by_stage is not None
    assert by_column is not None
    assert by_stage.step.data < by_column.step.data
    [there] = [step for step in place_steps(spec, NODE) if (step.nodes, step.racks) == (4, 2)]
    assert there.step_us == round(by_stage.step.total * 1e6)


def test_where_the_stages_send_more_a_pipeline_stays_in_a_rack() -> None:
    """Two data ranks, long sequences and many micro-batches of a narrow model."""
    narrow = {**WIDE, "layers": 2, "vocabulary": 1_000, "hidden": 1_024, "heads": 16, "sequence": 65_536,
              "global_batch": 512}  # fmt: skip
    spec = job(32, narrow, parallel={"dp": 2, "tp": 8, "pp": 2})
    by_column = predict(spec, 32, replace(NODE, nodes=4, racks=(0, 1, 0, 1)))
    assert by_column is not None
    [there] = [step for step in place_steps(spec, NODE) if (step.nodes, step.racks) == (4, 2)]
    assert there.step_us == round(by_column.step.total * 1e6)


@st.composite
def places(draw: st.DrawFn) -> tuple[Cluster, int]:
    stages, columns = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    racks = draw(st.lists(st.integers(0, 2), min_size=stages * columns, max_size=stages * columns))
    return replace(NODE, nodes=len(racks), racks=tuple(racks)), stages


@given(places())
def test_a_group_leaves_its_rack_where_the_scheduler_counts_a_link_between_racks(
    place: tuple[Cluster, int],
) -> None:
    cluster, stages = place
    pipeline, data = links_between_racks(cluster.racks, stages)
    stage = cluster.gpus // stages
    assert leaves_rack(cluster, Group(stages, stage)) == (pipeline > 0)
    assert leaves_rack(cluster, Group(stage)) == (data > 0)
    assert not leaves_rack(cluster, Group(8))


def test_the_racks_of_a_place_are_those_of_all_its_nodes() -> None:
    with pytest.raises(ValueError, match="2 racks are named for 4 nodes; name one for each"):
        replace(NODE, nodes=4, racks=(0, 1))
