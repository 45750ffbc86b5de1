"""What Prometheus reads of distribution, and who may."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.db import connection
from django.test import Client, override_settings
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from platform_core.distribution.content.manifest import ManifestBuilder
from platform_core.node.observed import DeploymentObserved, TransferState
from tests.webapp.conftest import Cast
from webapp.accounts.models import Team
from webapp.accounts.queries import actor_of
from webapp.artifacts import services as artifacts
from webapp.deployments import queries, services
from webapp.deployments.models import Deployment, Worker
from webapp.nodes.models import Node
from webapp.registry import services as registry

SIZE = 10 * 2**20
TOKEN = "token-of-the-scraper"


@pytest.fixture
def deployment(cast: Cast, vision: Team, node: Callable[..., Node]) -> Deployment:
    """To two nodes: one pulled it and sent damaged bytes, the other gave it up after it was complete."""
    for name in ("node-1", "node-2"):
        node(name)
    builder = ManifestBuilder("model", chunk_size=4 * 2**20, piece_size=2**20)
    builder.feed("weights.bin", bytes(SIZE))
    manifest = artifacts.register(builder.finish(), "vision", "file:///somewhere")
    registry.register(actor_of(cast.owner), "vision", "bytelm", manifest=manifest.id)
    made = services.create(actor_of(cast.owner), "vision/bytelm", 1)
    first, second = [worker.node_id for worker in queries.workers(made.id)]
    say(made, first, "receiving", SIZE // 2, store_bytes=SIZE // 2)
    say(made, second, "receiving", SIZE // 4, distrusted=(first,), refused_bytes=2**20, retries=3)
    say(made, first, "complete", SIZE, store_bytes=SIZE)
    say(made, second, "failed", SIZE // 4, error="the disk is full")
    say(made, second, "complete", SIZE)
    say(made, second, "evicted", 0, error="the disk was full")
    Deployment.objects.filter(id=made.id).update(bound_ms=1000, started_ms=5000, finished_ms=6040)
    return made


def say(deployment: Deployment, node: str, state: str, done: int, **more: object) -> None:
    told = {"rate_in": 0, "rate_out": 0, "source": "", "error_code": "", "error": "", "retries": 0, **more}
    services.report(
        node,
        DeploymentObserved(deployment.id, TransferState(state), bytes_done=done, bytes_total=SIZE, **told),
    )  # type: ignore[arg-type]


@pytest.fixture
def scraper() -> Iterator[Client]:
    with override_settings(METRICS_TOKEN=TOKEN):
        yield Client(headers={"authorization": f"Bearer {TOKEN}"})


def read(client: Client) -> dict[str, float]:
    answer = client.get("/metrics", headers={"accept": "application/openmetrics-text;version=1.0.0"})
    assert answer.status_code == 200
    assert answer["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    lines = [line for line in answer.content.decode().splitlines() if not line.startswith("#")]
    pairs = [line.rpartition(" ") for line in lines]
    return {name.removeprefix("trainmaster_"): float(value) for name, _, value in pairs}


def test_the_scraper_reads_what_distribution_has_done(scraper: Client, deployment: Deployment) -> None:
    with CaptureQueriesContext(connection) as asked:
        told = read(scraper)
    assert not [query["sql"] for query in asked if "deployments_worker" in query["sql"]], (
        "there may be millions"
    )
    assert told['deployments{state="complete",team="vision"}'] == 1
    assert told['deployment_nodes{state="evicted",team="vision"}'] == 1
    of_vision = {
        "moved_bytes_total": 2 * SIZE, "store_bytes_total": SIZE, "refused_bytes_total": 2**20, "retries_total": 3,
        "node_failures_total": 1, "evictions_total": 1, "damaged_senders_total": 1,
        "time_over_bound_count": 1, "time_over_bound_sum": 1.04,
    }  # fmt: skip
    for name, value in of_vision.items():
        assert told[f'deployment_{name}{{team="vision"}}'] == value, name
    assert told['deployment_time_over_bound_bucket{le="1.02",team="vision"}'] == 0
    assert told['deployment_time_over_bound_bucket{le="1.05",team="vision"}'] == 1


def kept(deployment: Deployment) -> list[object]:
    row = Deployment.objects.get(id=deployment.id)
    return [row.moved_bytes, row.store_bytes, row.refused_bytes, row.retries, row.node_states]


def added_up(deployment: Deployment) -> list[object]:
    """The same, of its nodes one by one."""
    nodes = list(Worker.objects.filter(deployment=deployment))
    sums = [
        sum(getattr(node, name) for node in nodes)
        for name in ("moved_bytes", "store_bytes", "refused_bytes", "retries")
    ]
    return [*sums, dict(Counter(node.state for node in nodes))]


def test_what_a_deployment_keeps_of_its_nodes_is_what_they_add_up_to(
    deployment: Deployment, cast: Cast
) -> None:
    assert kept(deployment) == added_up(deployment)
    first, second = [worker.node_id for worker in queries.workers(deployment.id)]
    together = [
        (node, DeploymentObserved(deployment.id, TransferState(state), done, SIZE, retries=retries, store_bytes=done))
        for node, state, done, retries in (
            (second, "receiving", 10, 4), (first, "complete", SIZE, 1), (second, "receiving", SIZE // 2, 5),
        )
    ]  # fmt: skip
    services.report_all(together)
    assert kept(deployment) == added_up(deployment)
    services.cancel(actor_of(cast.owner), services.create(actor_of(cast.owner), "vision/bytelm", 1).id)
    for row in Deployment.objects.all():
        assert kept(row) == added_up(row)


def test_no_counter_falls_when_a_model_is_fetched_again(
    scraper: Client, deployment: Deployment, cast: Cast
) -> None:
    gone = Worker.objects.get(deployment=deployment, state="evicted").node_id
    before = read(scraper)
    services.retry(actor_of(cast.owner), deployment.id)
    for state, done in (("receiving", 100), ("receiving", SIZE // 2), ("complete", SIZE)):
        say(deployment, gone, state, done)
        after = read(scraper)
        for name in before:
            if "_total" in name:
                assert after[name] >= before[name], name
        before = after
        assert kept(deployment) == added_up(deployment)
    assert before['deployment_moved_bytes_total{team="vision"}'] == 3 * SIZE


def test_people_read_what_their_teams_may_see(
    deployment: Deployment, cast: Cast, browser: Callable[..., Client], api: Callable[..., APIClient]
) -> None:
    assert read(browser(cast.viewer))['deployments{state="complete",team="vision"}'] == 1
    assert read(browser(cast.admin))['deployments{state="complete",team="vision"}'] == 1
    assert read(browser(cast.outsider)) == {}
    assert read(api(cast.outsider, "nlp")) == {}


def test_without_a_token_or_with_another_one_nothing_is_told(scraper: Client, db: None) -> None:
    for given in ({}, {"authorization": "Bearer another"}, {"authorization": f"Basic {TOKEN}"}):
        answer = Client(headers=given).get("/metrics")
        assert answer.status_code == 401
        assert answer["WWW-Authenticate"] == "Bearer"


def test_an_empty_token_in_the_settings_is_none(db: None) -> None:
    with override_settings(METRICS_TOKEN=""):
        assert Client(headers={"authorization": "Bearer "}).get("/metrics").status_code == 401


def test_before_the_first_deployment_the_families_are_named_and_empty(scraper: Client, db: None) -> None:
    told = read(scraper)
    assert told["mails_waiting"] == 0
    assert not [name for name in told if name.startswith("deployment")]
    assert "# TYPE trainmaster_deployments gauge" in scraper.get("/metrics").content.decode()


def test_every_metric_is_described(scraper: Client, deployment: Deployment) -> None:
    described = (Path(__file__).parents[3] / "docs" / "reference" / "metrics.md").read_text()
    told = scraper.get("/metrics").content.decode()
    for name, kind in re.findall(r"^# TYPE (\w+) (\w+)$", told, re.MULTILINE):
        assert re.search(rf"\| {name}(\{{[a-z_,]+\}})? \| {kind} \|", described), name
