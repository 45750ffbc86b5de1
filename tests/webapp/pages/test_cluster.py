"""The cluster page holds for everybody, and not only for what the reader may see."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from tests.webapp.jobs.conftest import SPEC, cluster, tick
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.jobs import services as jobs
from webapp.jobs.models import UtilisationSample
from webapp.nodes.models import Node

__all__ = ["cluster"]

Browse = Callable[[User], Client]


def submit(who: User, name: str, **changes: Any) -> None:
    jobs.submit(actor_of(who), {**SPEC, "name": name, **changes})


@pytest.fixture
def two_wait(cluster: list[Node], owner: User) -> None:
    """Vision holds all eight slots, and two more of its jobs wait."""
    for name in ("first", "second", "third"):
        submit(owner, name, num_gpus=8)
        tick()


def kpi(page: Any, label: str) -> tuple[str, str]:
    [figure] = [figure for figure in page.context["headline"]().figures if figure.label == label]
    return figure.value, figure.note


def test_waiting_jobs_of_other_teams_are_counted_without_their_names(
    two_wait: None, owner: User, outsider: User, admin: User, browser: Browse
) -> None:
    page = browser(outsider).get("/cluster/")
    text = page.content.decode()
    assert "No job is pending" not in text
    assert "No job of your teams is pending" in text
    assert "2 jobs of other teams are pending." in text
    assert "second" not in text
    assert (kpi(page, "Pending"), kpi(page, "Running")) == (
        ("2", "0 of your teams"),
        ("1", "0 of your teams"),
    )
    assert kpi(browser(owner).get("/cluster/"), "Pending") == ("2", "2 of your teams")
    assert kpi(browser(admin).get("/cluster/"), "Pending") == ("2", "of all teams")


def test_the_number_beside_the_queue_is_that_of_the_queue(
    two_wait: None, outsider: User, browser: Browse
) -> None:
    assert (
        '<span>Queue</span> <span class="n">2</span>' in browser(outsider).get("/cluster/").content.decode()
    )


def legend(page: Any) -> dict[str, int]:
    return {line.name: line.slots for line in page.context["legend"]()}


@pytest.mark.parametrize("state", ["lost", "draining", "drained", "suspect"])
def test_a_slot_of_a_node_that_takes_no_work_is_not_free(
    state: str, cluster: list[Node], owner: User, browser: Browse
) -> None:
    submit(owner, "small", num_gpus=2)
    tick()
    held = browser(owner).get("/cluster/").context["racks"]()
    idle = next(node.id for rack in held for node in rack.nodes if not any(slot.key for slot in node.slots))
    Node.objects.filter(id=idle).update(state=state)
    assert legend(browser(owner).get("/cluster/")) == {"vision": 2, "free": 4, "not available": 2}


def test_the_headline_is_the_slots_in_use(cluster: list[Node], owner: User, browser: Browse) -> None:
    submit(owner, "small", num_gpus=2)
    tick()
    page = browser(owner).get("/cluster/")
    assert '<h1 class="headline">2 of 8 slots in use</h1>' in page.content.decode()


def test_slots_of_gpu_types_are_called_gpus(node: Callable[..., Node], owner: User, browser: Browse) -> None:
    node("node-1", slots=4, gpu_type="a100-80gb")
    assert browser(owner).get("/cluster/").context["headline"]().number == "0 of 4 GPUs in use"


def test_a_node_that_takes_no_work_is_named_first(cluster: list[Node], owner: User, browser: Browse) -> None:
    Node.objects.filter(hostname="node-1").update(state="lost")
    text = browser(owner).get("/cluster/").content.decode()
    assert "1 node without new work" in text
    assert f'<a href="/nodes/{cluster[1].id}/">node-1</a> lost' in text


def test_the_utilisation_is_of_all_types_and_names_each(
    node: Callable[..., Node], owner: User, browser: Browse
) -> None:
    node()
    for gpu_type, held, busy in (("a100-80gb", 6, 0.9), ("h100-80gb", 2, 0.5), ("l4", 0, None)):
        UtilisationSample.objects.create(
            at_ms=1_000, gpu_type=gpu_type, slots=8, held=held, utilisation=busy, queued_jobs=0
        )
    UtilisationSample.objects.create(
        at_ms=500, gpu_type="cpu", slots=8, held=8, utilisation=0.1, queued_jobs=0
    )
    assert kpi(browser(owner).get("/cluster/"), "Utilisation") == ("80 %", "a100-80gb 90 % · h100-80gb 50 %")
