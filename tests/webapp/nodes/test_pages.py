import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
from django.test import Client
from rest_framework.test import APIClient

from platform_core.node.description import SlotTelemetry, Telemetry
from tests.webapp.conftest import Cast, description
from webapp.accounts.models import Team, User
from webapp.nodes import queries, services
from webapp.nodes.models import Node
from webapp.quotas import services as quotas
from webapp.quotas.services import Holding

Join = Callable[..., Node]
Browser = Callable[[User], Client]


ECC = {"ecc_corrected": 2, "ecc_uncorrected": 1, "ecc_corrected_lifetime": 900, "ecc_uncorrected_lifetime": 4}


@pytest.fixture
def busy(cast: Cast, node: Join, vision: Team) -> Node:
    """A node on which a job of alice holds one of two slots."""
    one = node("node-1", slots=2)
    services.assign_slots({"att-1": [(one.id, [0])]})
    quotas.open_entries([Holding("att-1", "job-secret", one.id, "vision", cast.owner.pk, "cpu", 1)], at_ms=0)
    profiled = {"sm_active": 0.93, "tensor_active": 0.71, "pcie_sent_bytes_per_second": 2.5 * 2**30}
    slots = (
        SlotTelemetry(0, 0.9, temperature_celsius=61.4, **ECC, readings=profiled),
        SlotTelemetry(1, 0.1),
    )
    asyncio.run(services.heartbeat(one.id, Telemetry(5 * 2**30, 2**30, slots)))
    return one


def test_everybody_sees_the_nodes_but_not_the_jobs_of_other_teams(
    busy: Node, cast: Cast, browser: Browser
) -> None:
    for address in ("/nodes/", f"/nodes/{busy.id}/"):
        assert "job-secret" in browser(cast.viewer).get(address).content.decode()
        page = browser(cast.outsider).get(address).content.decode()
        assert "job-secret" not in page
        assert "alice" not in page
        assert "another team" in page


def test_the_api_hides_them_too(busy: Node, cast: Cast, api: Callable[..., APIClient]) -> None:
    (seen,) = api(cast.owner).get("/api/v1/nodes").json()["results"]
    assert seen["jobs"] == [{"id": "job-secret", "name": "job-secret"}]
    assert (seen["hostname"], seen["slots"], seen["slots_in_use"], seen["state"]) == ("node-1", 2, 1, "ready")
    assert seen["utilisation"] == pytest.approx(90)
    (hidden,) = api(cast.outsider, "nlp").get("/api/v1/nodes").json()["results"]
    assert hidden["jobs"] == [{"id": "", "name": "another team"}]


def test_the_numbers_of_the_hardware_are_on_the_page(busy: Node, cast: Cast, browser: Browser) -> None:
    page = browser(cast.member).get(f"/nodes/{busy.id}/").content.decode()
    assert "90 %" in page
    assert "61 °C" in page
    assert "SMs 93 % · tensor cores 71 % · PCIe 2.5 GiB/s" in page
    assert "5 GiB" in page
    assert "1 uncorrected, 2 corrected" in page
    assert "since the driver was loaded; in its lifetime 4 uncorrected, 900 corrected" in page


def test_a_gpu_that_does_not_answer_is_named_on_the_pages_and_in_the_api(
    node: Join, cast: Cast, browser: Browser, api: Callable[..., APIClient]
) -> None:
    fault = "GPU 3 does not answer and is not offered: GPU is lost."
    one = node()
    services.hello(one.id, replace(description(), hardware_faults=[fault]))
    for address in ("/nodes/", f"/nodes/{one.id}/"):
        page = browser(cast.member).get(address).content.decode()
        assert fault in page
        assert "found wrong with its GPUs, disks or clock" not in page
    (seen,) = api(cast.member).get("/api/v1/nodes").json()["results"]
    assert seen["hardware_faults"] == [fault]


def test_the_page_says_why_a_node_with_a_full_disk_takes_no_jobs(
    busy: Node, cast: Cast, browser: Browser
) -> None:
    asyncio.run(services.heartbeat(busy.id, Telemetry(2**20, 2**30)))
    for address in ("/nodes/", f"/nodes/{busy.id}/"):
        page = browser(cast.member).get(address).content.decode()
        assert "no new jobs: 1 MiB of its disk are free, 256 MiB are the least" in page


def test_what_needs_attention_comes_first(cast: Cast, node: Join, browser: Browser) -> None:
    node("first")
    lost = node("last")
    Node.objects.filter(id=lost.id).update(state="lost", state_reason="no heartbeat for 42 s")
    page = browser(cast.member).get("/nodes/").content.decode()
    assert page.index(">last<") < page.index(">first<")
    assert "no heartbeat for 42 s" in page
    assert "0 of 4 slots in use" in page
    assert "on 2 nodes: 1 lost, 1 ready" in page


def test_the_list_is_filtered_by_state_and_name(cast: Cast, node: Join, browser: Browser) -> None:
    node("node-a")
    node("other-b")
    client = browser(cast.member)
    assert "other-b" not in client.get("/nodes/?q=node").content.decode()
    assert "No node matches these filters." in client.get("/nodes/?state=lost").content.decode()


def test_an_empty_cluster_says_how_a_node_joins(cast: Cast, browser: Browser) -> None:
    page = browser(cast.member).get("/nodes/").content.decode()
    assert "No node has joined yet" in page
    assert "trainmaster agent --server" in page


def test_an_operator_drains_and_resumes_on_the_page(busy: Node, cast: Cast, browser: Browser) -> None:
    client = browser(cast.admin)
    page = client.post(f"/nodes/{busy.id}/drain/", follow=True).content.decode()
    assert "node-1 takes no new jobs." in page
    assert "1 slot in use, freed when their jobs end" in page
    client.post(f"/nodes/{busy.id}/resume/")
    busy.refresh_from_db()
    assert busy.state == "ready"


def test_nobody_else_has_the_buttons_or_the_right(busy: Node, cast: Cast, browser: Browser) -> None:
    client = browser(cast.lead)
    assert "/drain/" not in client.get(f"/nodes/{busy.id}/").content.decode()
    assert client.post(f"/nodes/{busy.id}/drain/").status_code == 403
    assert client.get("/nodes/tokens/").status_code == 403


def test_a_bootstrap_token_is_shown_once(cast: Cast, browser: Browser) -> None:
    client = browser(cast.admin)
    shown = client.post("/nodes/tokens/", {"name": "rack 3", "hours": "24"})
    assert "--token tmb_" in shown.content.decode()
    assert "no-store" in shown["Cache-Control"]
    page = client.get("/nodes/tokens/").content.decode()
    assert "tmb_" not in page
    assert "rack 3" in page
    client.post(f"/nodes/tokens/{queries.bootstrap_tokens()[0].id}/revoke/")
    assert queries.bootstrap_tokens() == ()
    assert client.post("/nodes/tokens/", {"name": "rack 3", "hours": "0"}).status_code == 422


def test_a_node_that_does_not_exist_is_not_found(cast: Cast, browser: Browser) -> None:
    assert browser(cast.admin).get("/nodes/node-0000000000000000/").status_code == 404


@pytest.mark.parametrize("block", ["head", "slots", "events"])
def test_each_part_of_the_page_comes_alone_when_htmx_asks(
    busy: Node, cast: Cast, browser: Browser, block: str
) -> None:
    part = browser(cast.member).get(f"/nodes/{busy.id}/?block={block}", headers={"HX-Request": "true"})
    assert part.status_code == 200
    assert "<html" not in part.content.decode()


def test_the_list_costs_the_same_for_many_nodes(
    cast: Cast, node: Join, browser: Browser, django_assert_max_num_queries: Callable[..., object]
) -> None:
    for index in range(12):
        one = node(f"node-{index}")
        services.assign_slots({f"att-{index}": [(one.id, [0])]})
    client = browser(cast.member)
    with django_assert_max_num_queries(17):  # type: ignore[attr-defined]
        client.get("/nodes/")


def test_the_versions_that_run_the_jobs_of_a_node_are_on_its_page_and_in_the_api(
    node: Join, cast: Cast, browser: Browser, api: Callable[..., APIClient]
) -> None:
    one = node()
    versions = {"python": "3.12.4", "torch": "2.11.0+cu130", "driver": "580.65"}
    services.hello(one.id, replace(description(), versions=versions))
    page = browser(cast.member).get(f"/nodes/{one.id}/").content.decode()
    assert "<dt>PyTorch</dt><dd>2.11.0+cu130</dd>" in page
    assert "<dt>GPU driver</dt><dd>580.65</dd>" in page
    (seen,) = api(cast.member).get("/api/v1/nodes").json()["results"]
    assert seen["versions"] == versions
