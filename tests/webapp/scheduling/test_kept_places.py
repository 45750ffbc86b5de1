"""Nodes that are kept for a waiting job are marked on the map and on their own page: for whom, and from when on."""

import re
from collections.abc import Callable

import pytest
from django.test import Client

from platform_core.jobs.job import MemberPhase
from tests.webapp.jobs.conftest import say, state, tick
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.jobs import services as jobs
from webapp.jobs.models import Job
from webapp.nodes.models import Node
from webapp.quotas.models import Quota
from webapp.sockets import services as sockets

Browser = Callable[[User], Client]
Submit = Callable[..., Job]


@pytest.fixture
def gang(cluster: list[Node], submit: Submit) -> Job:
    """It wants all eight slots, two of which are held for an hour: all four nodes are kept for it."""
    Quota.objects.update(maximum=16)
    submit(name="holds", num_gpus=2)
    tick()
    wanted = submit(name="large-gang", num_gpus=8)
    tick()
    return Job.objects.get(id=wanted.id)


def cells(client: Client, query: str = "") -> dict[str, tuple[str, str, str]]:
    """Hostname → (classes, what is said, what stands in the cell), of the nodes on the map."""
    page = client.get(f"/nodes/map/{query}").content.decode()
    found = re.findall(r'class="cell ([^"]*)" href="[^"]*" aria-label="([^"]*)">(.*?)</a>', page)
    return {re.findall(r"node-\d", said)[0]: (kind, said, shown) for kind, said, shown in found}


def test_a_kept_node_says_for_whom_and_from_when_on(gang: Job, browser: Browser, owner: User) -> None:
    marked = cells(browser(owner))
    assert set(marked) == {"node-0", "node-1", "node-2", "node-3"}
    for kind, said, shown in marked.values():
        assert kind.endswith(" kept")
        assert re.search(
            r"free on node-\d; kept for large-gang, which should start in about (1 h|50 min)$", said
        )
        assert shown.endswith("<small>kept</small>")


def test_the_jobs_for_which_places_are_kept_stand_above_the_map(
    gang: Job, browser: Browser, owner: User
) -> None:
    page = " ".join(browser(owner).get("/nodes/map/").content.decode().split())
    card = page[page.index("Reservations") :].partition("</section>")[0]
    assert f'<a href="/jobs/{gang.id}/">large-gang</a>' in card
    assert re.search(
        r'in about (1 h|50 min)</td><td class="hide-s">(node-\d, ){2}node-\d and 1 more</td>', card
    )
    legend = page[page.index("Legend") :]
    assert "reserved for a pending job" in legend


def test_another_team_learns_that_a_node_is_kept_and_no_name(
    gang: Job, browser: Browser, outsider: User
) -> None:
    client = browser(outsider)
    assert all(
        "; kept for a job of vision, which should start in" in said for _, said, _ in cells(client).values()
    )
    node = Node.objects.get(hostname="node-0")
    for address in ("/nodes/map/", f"/nodes/{node.id}/"):
        page = client.get(address).content.decode()
        assert "a job of vision" in page
        assert "large-gang" not in page
        assert gang.id not in page


def test_the_page_of_a_kept_node_leads_to_the_job(gang: Job, browser: Browser, owner: User) -> None:
    node = Node.objects.get(hostname="node-0")
    asked = {"headers": {"HX-Request": "true"}}
    head = browser(owner).get(f"/nodes/{node.id}/?block=head", **asked).content.decode()
    assert f'Reserved for <a href="/jobs/{gang.id}/">large-gang</a>' in head
    assert "It should start in about" in head


def test_a_place_of_which_a_part_is_filtered_out_says_how_much(
    gang: Job, browser: Browser, owner: User
) -> None:
    Node.objects.filter(hostname="node-3").update(block="far")
    page = browser(owner).get("/nodes/map/?within=far").content.decode()
    assert '>node-3<div class="under">and 3 not shown</div></td>' in page


def test_a_node_that_takes_no_work_says_why_instead(gang: Job, browser: Browser, owner: User) -> None:
    Node.objects.filter(hostname="node-3").update(state="draining")
    kind, said, shown = cells(browser(owner))["node-3"]
    assert kind == "away draining"
    assert said.startswith("draining: node-3")
    assert "kept" not in said + shown


def test_a_node_that_is_kept_for_two_names_the_first_in_the_queue_first(
    gang: Job, submit: Submit, browser: Browser, owner: User
) -> None:
    later = submit(name="later", num_gpus=8)
    tick()
    Job.objects.filter(id=later.id).update(wait_place=gang.wait_place, wait_numbers=gang.wait_numbers)
    _, said, _ = cells(browser(owner))["node-1"]
    assert re.search("kept for large-gang, which .*, then for later, which should start", said)


def test_the_mark_goes_with_the_start_and_open_maps_hear_of_both(
    gang: Job, submit: Submit, browser: Browser, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[str] = []
    monkeypatch.setattr(sockets, "publish", lambda subject, data=None: heard.append(subject))
    Job.objects.filter(id=gang.id).update(wait_place=[])
    tick()
    assert "cluster" in heard
    heard.clear()
    tick()
    assert heard == []
    holder = Job.objects.get(name="holds")
    jobs.cancel(actor_of(owner), holder.id)
    say(holder, MemberPhase.EXITED, 0)
    tick()
    assert state(gang) == "scheduled"
    assert "cluster" in heard
    assert not any("kept" in said for _, said, _ in cells(browser(owner)).values())
