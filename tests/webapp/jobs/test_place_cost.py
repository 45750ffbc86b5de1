"""What a place costs in step time stands where the place is explained."""

from collections.abc import Callable

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
