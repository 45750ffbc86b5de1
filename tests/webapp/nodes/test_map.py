"""The map of the cluster: what it says, and that it stays quick with a thousand nodes."""

import random
import re
from collections.abc import Callable

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from platform_core.cluster.health import NodeState
from platform_core.cluster.snapshot import NodeView
from platform_core.units import HOUR_MS
from tests.webapp.conftest import Cast
from webapp.accounts.models import User
from webapp.base.identity import now_ms
from webapp.nodes import queries
from webapp.nodes.models import MaintenanceWindow, Node, Slot
from webapp.pages.nodes.map import word

Browser = Callable[[User], Client]
QUERIES = 20  # the frame of every page and the session among them


@pytest.fixture
def books_agree(db: None) -> None:
    """Takes the place of the check of the books: here slots are held by nobody's attempts."""


def cluster(nodes: int, seed: int = 1, per_rack: int = 16, racks_of_block: int = 8) -> None:
    """Nodes of eight, some in part in use, some away: the same for the same seed."""
    chance = random.Random(seed)
    states = [NodeState.READY] * 20 + [
        NodeState.DRAINING,
        NodeState.DRAINED,
        NodeState.SUSPECT,
        NodeState.LOST,
    ]
    rows, slots = [], []
    for number in range(nodes):
        rack = number // per_rack
        rows.append(
            Node(
                id=f"node-{number:016x}", hostname=f"gpu-{number:04}", rack=f"rack-{rack % racks_of_block:02}",
                block=f"block-{rack // racks_of_block:02}", gpu_type="h100-80gb", cpus=96, memory_bytes=2**40,
                disk_bytes=2**42, agent_version="0.1.0", address="127.0.0.1", transfer_port=7700,
                rendezvous_port_low=29400, rendezvous_port_high=29499, state=chance.choice(states),
                labels={"spot": "yes"} if number % 97 == 5 else {}, state_since_ms=1, joined_ms=1,
                credential_digest=f"digest-{number}",
            )
        )  # fmt: skip
        used = chance.choice([0, 0, 8, 8, 8, chance.randrange(9)])
        slots += [
            Slot(node_id=f"node-{number:016x}", index=index, name="H100", attempt_id="att" if index < used else None)
            for index in range(8)
        ]  # fmt: skip
    Node.objects.bulk_create(rows)
    Slot.objects.bulk_create(slots)


def view(name: str) -> NodeView:
    return next(node for node in queries.snapshot_nodes() if node.hostname == name)


def test_a_node_that_takes_work_shows_what_is_free_and_one_that_does_not_says_why(
    cast: Cast, browser: Browser, member: User, node: Callable[..., Node]
) -> None:
    node("n1", slots=4)
    lost = node("n2", slots=4)
    Node.objects.filter(id=lost.id).update(state=NodeState.LOST)
    page = browser(member).get("/nodes/map/").content.decode()
    assert re.search(r'class="cell u0" href="[^"]*" aria-label="4 of 4 free on n1">4</a>', page)
    assert re.search(
        r'class="cell away lost"[^>]*aria-label="lost: n2, 0 of 4 in use"><small>lost</small>', page
    )
    assert "of 8 slots free" in page
    assert "on 2 nodes in 1 rack" in page


def test_the_words_of_a_node_that_is_apart(db: None, node: Callable[..., Node]) -> None:
    now = now_ms()
    for name in ("plain", "spot", "tainted", "booked", "now", "gone"):
        node(name)
    Node.objects.filter(hostname="spot").update(labels={"spot": "yes"})
    Node.objects.filter(hostname="tainted").update(taints=["lab"])
    Node.objects.filter(hostname="gone").update(state=NodeState.SUSPECT)
    for name, begin_ms in (("booked", now + HOUR_MS), ("now", now - HOUR_MS)):
        MaintenanceWindow.objects.create(
            nodes=[Node.objects.get(hostname=name).id], begin_ms=begin_ms, end_ms=now + 2 * HOUR_MS, booked_by="root"
        )  # fmt: skip
    Node.objects.filter(hostname="now").update(state=NodeState.DRAINED)
    words = {node.hostname: word(node, now) for node in queries.snapshot_nodes()}
    assert words == {
        "plain": "", "spot": "spot", "tainted": "tainted", "booked": "booked", "now": "maintenance", "gone": "suspect",
    }  # fmt: skip


def test_the_address_restores_the_view(cast: Cast, browser: Browser, member: User) -> None:
    cluster(300)
    whole = browser(member).get("/nodes/map/").content.decode()
    one = (
        browser(member)
        .get("/nodes/map/?within=block-01&order=fragmented&gpu_type=h100-80gb")
        .content.decode()
    )
    assert whole.count("data-rack ") == 19
    assert one.count("data-rack ") == 8
    assert "gpu-0128" in one
    assert "gpu-0000" not in one
    shares = [int(found) for found in re.findall(r"<p>\d+ free, (\d+) % fragmented", one)]
    assert shares == sorted(shares, reverse=True)


def test_the_fragment_shows_what_the_page_showed(cast: Cast, browser: Browser, member: User) -> None:
    cluster(300)
    client = browser(member)
    for view in ("?", "?within=block-01&"):
        page = client.get(f"/nodes/map/{view}").content.decode()
        part = client.get(f"/nodes/map/{view}block=map", headers={"HX-Request": "true"}).content.decode()
        assert page.count("data-rack ") == part.count("data-rack ")


def test_nobody_has_joined_yet(cast: Cast, browser: Browser, member: User) -> None:
    assert "No node has joined yet" in browser(member).get("/nodes/map/").content.decode()


def test_a_block_that_is_not_there_leads_back(cast: Cast, browser: Browser, member: User) -> None:
    cluster(16)
    assert "The whole cluster" in browser(member).get("/nodes/map/?within=none").content.decode()


def test_ten_thousand_gpus_take_no_more_queries_than_sixteen_nodes_and_a_few_hundred_kilobytes(
    cast: Cast, browser: Browser, member: User
) -> None:
    client = browser(member)
    counts, sizes = [], []
    for nodes in (16, 1_250):
        Node.objects.all().delete()
        cluster(nodes)
        client.get("/nodes/map/")
        with CaptureQueriesContext(connection) as made:
            sizes.append(len(client.get("/nodes/map/").content))
        counts.append(len(made))
    assert counts[0] == counts[1] <= QUERIES
    assert sizes[1] < 250_000


def test_a_node_with_islands_shows_what_is_free_in_each(
    cast: Cast, browser: Browser, member: User, node: Callable[..., Node]
) -> None:
    linked = node("n1", slots=8)
    Slot.objects.filter(node=linked).update(island=1)
    Slot.objects.filter(node=linked, index__gte=4).update(island=2)
    Slot.objects.filter(node=linked, index__in=[0, 1, 2]).update(attempt_id="att")
    page = browser(member).get("/nodes/map/").content.decode()
    assert '"1+4: 5 of 8 free on n1">1+4</a>' in page
    assert "5 free slots on nodes partly in use, 1 in islands partly in use" in page
    assert view("n1").islands == ((0, 1, 2, 3), (4, 5, 6, 7))
