"""What a place costs in step time stands where the place is explained."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.webapp.jobs.conftest import *  # noqa: F403  submit
from tests.webapp.jobs.conftest import tick
from webapp.accounts.models import Team
from webapp.jobs.models import Attempt, Job
from webapp.nodes.models import Node
from webapp.quotas.models import Quota

Submit = Callable[..., Job]
SHAPE = {"layers": 16, "hidden": 2048, "heads": 16, "sequence": 2048, "global_batch": 16}


@pytest.fixture
def racks(node: Callable[..., Node], vision: Team, quota: Callable[..., Quota]) -> None:
    """Two nodes of two GPUs in two racks, with a thin network between them."""
    quota(vision, "a100-80gb")
    for name, rack in (("gpu-1", "rack-1"), ("gpu-2", "rack-2")):
        node(name, rack=rack, gpu_type="a100-80gb")
    Node.objects.update(operator_labels={"network-gbit": "100", "oversubscription": "8"})


def placed(submit: Submit, **changes: object) -> str:
    submit(gpu_type="a100-80gb", **changes)
    tick()
    return Attempt.objects.get().placement_reason


@pytest.mark.usefixtures("racks")
def test_a_gang_over_two_racks_says_what_that_costs_in_step_time(submit: Submit) -> None:
    reason = placed(submit, num_gpus=4, transformer=SHAPE, parallel={"fsdp": 4})
    before, _, cost = reason.partition("; by the planner a step takes ")
    assert "4 GPUs of a100-80gb on 2 nodes in 2 racks" in before
    assert cost.endswith(" % longer than on 2 nodes in one rack")
    assert int(cost.partition(" ")[0]) > 0


@pytest.mark.usefixtures("racks")
@pytest.mark.parametrize(
    "changes",
    [
        {"num_gpus": 4},
        {"num_gpus": 4, "transformer": SHAPE},
        {"num_gpus": 2, "transformer": SHAPE, "parallel": {"fsdp": 2}},
    ],
    ids=["no shape", "no layout", "one node"],
)
def test_nothing_is_said_where_nothing_is_known_or_lost(submit: Submit, changes: dict[str, object]) -> None:
    assert "planner" not in placed(submit, **changes)


@pytest.mark.usefixtures("racks")
def test_a_gang_waits_for_its_rack_and_starts_where_it_can_once_it_may_not_wait(
    submit: Submit, node: Callable[..., Node], settings: Any
) -> None:
    node("gpu-3", rack="rack-1", gpu_type="a100-80gb")
    Node.objects.update(operator_labels={"network-gbit": "100", "oversubscription": "8"})
    submit(gpu_type="a100-80gb", num_gpus=2, max_runtime_hours=0.1)
    tick()
    held = Attempt.objects.get().members.get().node.rack
    Node.objects.exclude(rack=held).filter(hostname__in=["gpu-1", "gpu-3"]).update(rack=held)
    gang = submit(
        gpu_type="a100-80gb", num_gpus=4, max_runtime_hours=24, transformer=SHAPE, parallel={"fsdp": 4}
    )
    tick()
    gang.refresh_from_db()
    assert gang.wait_code == "better_place"
    assert "could start on 2 nodes, where by the planner a step takes " in gang.wait_sentence
    offered_ms = gang.wait_numbers["offered_ms"]
    tick()
    gang.refresh_from_db()
    assert gang.wait_numbers["offered_ms"] == offered_ms
    settings.SCHEDULING_PLACE_WAIT_SECONDS = 0
    tick()
    gang.refresh_from_db()
    assert gang.state == "scheduled"
    assert "offered_ms" not in gang.wait_numbers
