"""A job with a layout, from its submission over its placement to the order of an agent and its page."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from platform_core.jobs.parallel import Parallel
from platform_core.jobs.spec import SpecError
from tests.webapp.jobs.conftest import tick
from webapp.accounts.models import User
from webapp.jobs.models import Job, Member
from webapp.nodes.models import Node
from webapp.rpc.wanted import wanted_states

pytestmark = pytest.mark.usefixtures("cluster")
Submit = Callable[..., Job]


def test_a_layout_is_placed_ordered_and_shown(
    submit: Submit, browser: Callable[[User], Client], owner: User, cluster: list[Node]
) -> None:
    job = submit(num_gpus=4, parallel={"tp": 2, "pp": 2})
    tick()
    members = list(Member.objects.filter(attempt__job=job).order_by("rank"))
    assert [len(member.slots) for member in members] == [2, 2]
    [order] = wanted_states([members[0].node_id])[0].attempts
    assert order.launch is not None
    assert order.launch.parallel == Parallel(tp=2, pp=2)
    page = browser(owner).get(f"/jobs/{job.id}/").content.decode()
    assert "pp 2 x tp 2" in page
    settings = browser(owner).get(f"/jobs/{job.id}/?tab=spec").content.decode()
    assert "tp: 2" in settings


def test_the_groups_of_each_node_are_on_its_page_and_over_rest(
    submit: Submit, browser: Callable[[User], Client], owner: User, cluster: list[Node]
) -> None:
    job = submit(num_gpus=4, parallel={"tp": 2, "pp": 2})
    client = browser(owner)
    assert "listed here once the job is placed" in client.get(f"/jobs/{job.id}/").content.decode()
    assert client.get(f"/api/v1/training-jobs/{job.id}").json()["layout"] == {
        "title": "pp 2 x tp 2",
        "nodes": [],
    }
    tick()
    first, second = client.get(f"/api/v1/training-jobs/{job.id}").json()["layout"]["nodes"]
    assert (first["ranks"], first["coordinates"]) == ([0, 1], {"pp": [0], "tp": [0, 1]})
    assert (second["ranks"], second["coordinates"]) == ([2, 3], {"pp": [1], "tp": [0, 1]})
    assert len({first["node"], second["node"]} & {node.hostname for node in cluster}) == 2
    table = (
        client.get(f"/jobs/{job.id}/")
        .content.decode()
        .partition('id="layout-title"')[2]
        .partition("</table>")[0]
    )
    cells = [cell.partition("<")[0] for cell in table.split('<td class="n">')[1:]]
    assert cells == ["0-1", "0", "0-1", "2-3", "1", "0-1"]


def test_a_tensor_group_larger_than_every_node_can_never_start(submit: Submit) -> None:
    job = submit(num_gpus=4, parallel={"tp": 4})
    tick()
    job.refresh_from_db()
    assert job.wait_code == "cannot_ever_fit"
    assert "its tensor ranks need 4 slots of cpu on one node; no node has more than 2" in job.wait_sentence


def test_a_layout_that_does_not_divide_the_slots_is_not_submitted(submit: Submit) -> None:
    with pytest.raises(SpecError, match="one copy of the model takes 3 GPUs"):
        submit(num_gpus=4, parallel={"pp": 3})


def test_a_job_without_a_layout_shows_none(
    submit: Submit, browser: Callable[[User], Client], owner: User
) -> None:
    job = submit(num_gpus=4)
    tick()
    [first, *_] = Member.objects.filter(attempt__job=job)
    [order] = wanted_states([first.node_id])[0].attempts
    assert order.launch is not None
    assert not order.launch.parallel.is_given
    page = browser(owner).get(f"/jobs/{job.id}/").content.decode()
    assert "tp 2" not in page
    assert "layout-title" not in page
    assert browser(owner).get(f"/api/v1/training-jobs/{job.id}").json()["layout"] is None
