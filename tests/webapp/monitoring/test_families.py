"""Every family that boards, rules and the reference name is served, by the web or by a process of its own."""

from __future__ import annotations

import asyncio
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import Client, override_settings
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.parser import text_string_to_metric_families

from agent.exposition import Snapshot
from agent.exposition import families as of_agent
from platform_core.jobs.job import MemberPhase
from platform_core.node.description import POWER, SlotTelemetry, Telemetry
from platform_core.node.observed import AttemptObserved, DeploymentObserved, Observed, TransferState
from platform_core.node.profiling import NAMES
from tests.webapp.alerts.conftest import cluster, running, submit
from trainmaster.process_metrics import MetricsServer, serve
from webapp.alerts import evaluation
from webapp.base import pulse, traffic
from webapp.base.exposition import expose
from webapp.base.identity import now_ms
from webapp.config.celery import _families as of_worker
from webapp.experiments import services as experiments
from webapp.experiments.services import Point
from webapp.jobs.models import Job
from webapp.nodes import liveness
from webapp.nodes.models import Node
from webapp.rpc.database import in_database
from webapp.rpc.gateway import _families as of_gateway
from webapp.rpc.revisions import Watcher
from webapp.scheduling import measures as scheduling

__all__ = ["cluster", "running", "submit"]
ROOT = Path(__file__).parents[3]
TOKEN = "token-of-the-scraper"
READINGS = {"xid_79": 2.0, "sm_active": 0.5, POWER: 312.0}


@pytest.fixture
def scraped(
    running: Job, cluster: list[Node], submit: Callable[..., Job]
) -> Callable[[], dict[str, dict[tuple[str, ...], float]]]:
    """Family → values of labels → value, of a platform where a job trains and a GPU has an error."""
    now = now_ms()
    for node in cluster:
        liveness.heard(
            node.id, Telemetry(7, 8, (SlotTelemetry(0, 0.5, 10, 40.0, 1, 0, readings=READINGS),)), now
        )
        liveness.sent(node.id, now - 500, now)
    liveness.listening(now)
    pulse.beat()
    scheduling.finished(now, 12)
    Job.objects.filter(id=running.id).update(utilisation=0.75, step=40)
    values = {"ranks/0/mfu": 0.41, "ranks/0/step_seconds": 0.2, "ranks/0/data_share": 0.1}
    values["ranks/0/samples_per_second"] = 320.0
    points = [Point(key, 40, value, now) for key, value in values.items()]
    experiments.ingest(running.id, 1, points)
    evaluation.evaluate(now)
    submit()  # and waits
    read()  # which is a request
    return read


def read() -> dict[str, dict[tuple[str, ...], float]]:
    with override_settings(METRICS_TOKEN=TOKEN):
        answer = Client(headers={"authorization": f"Bearer {TOKEN}"}).get("/metrics")
    assert answer.status_code == 200
    return table(answer.content.decode())


def table(text: str) -> dict[str, dict[tuple[str, ...], float]]:
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(text):
        suffix = "_total" if family.type == "counter" else ""
        of_family = found.setdefault(family.name + suffix, {})
        for sample in family.samples:
            of_family[tuple(sample.labels.values())] = sample.value
    return found


def asked() -> set[str]:
    """By the files for Prometheus and Grafana."""
    files = [ROOT / "docker/observability/rules.yml", *(ROOT / "docker/observability/boards").glob("*.json")]
    return set(re.findall(r"trainmaster_\w+", "\n".join(file.read_text() for file in files)))


def test_each_metric_of_boards_and_rules_has_samples_or_nothing_to_count(
    scraped: Callable[[], dict[str, dict[tuple[str, ...], float]]],
) -> None:
    found = scraped()
    names = {re.sub(r"_(bucket|sum|count)$", "", name) for name in asked()}
    assert names <= found.keys()
    # What a platform without deployments, alerts and failures has none of; all else must have a sample.
    empty = {name for name in names if not found[name]}
    assert empty <= {name for name in names if "deployment" in name or "alerts" in name or "restarts" in name}


def test_the_reference_names_what_is_served_and_nothing_else(
    scraped: Callable[[], dict[str, dict[tuple[str, ...], float]]],
) -> None:
    documented = set(
        re.findall(r"^\| (trainmaster_\w+)", (ROOT / "docs/reference/metrics.md").read_text(), re.MULTILINE)
    )
    own = [*of_agent(snapshot()), *of_worker(), *of_gateway(Watcher())]
    of_processes = {family.name + ("_total" if family.type == "counter" else "") for family in own}
    web = {name for name in scraped() if name.startswith("trainmaster_")}
    assert not web & of_processes
    assert web | of_processes == documented


def test_a_job_that_trains_has_its_numbers(
    scraped: Callable[[], dict[str, dict[tuple[str, ...], float]]], running: Job
) -> None:
    found, labels = scraped(), ("vision", running.id, running.name)
    assert {
        name: found[f"trainmaster_job_{name}"][by_name(found, name, labels)]
        for name in ("utilisation_ratio", "step", "mfu_ratio", "step_seconds", "data_wait_ratio")
    } == {
        "utilisation_ratio": 0.75,
        "step": 40,
        "mfu_ratio": 0.41,
        "step_seconds": 0.2,
        "data_wait_ratio": 0.1,
    }
    assert found["trainmaster_job_rank_tokens_per_second"] == {}


def by_name(
    found: dict[str, dict[tuple[str, ...], float]], name: str, labels: tuple[str, ...]
) -> tuple[str, ...]:
    """The parser gives labels in the order of the text, which is that of their names."""
    return next(key for key in found[f"trainmaster_job_{name}"] if sorted(key) == sorted(labels))


def test_errors_of_a_gpu_have_their_number(
    scraped: Callable[[], dict[str, dict[tuple[str, ...], float]]],
) -> None:
    assert {key[-1]: value for key, value in scraped()["trainmaster_slot_xid_errors"].items()} == {"79": 2.0}


def test_steps_of_the_gateway_and_tasks_are_requests(db: None) -> None:
    def quick() -> int:
        return 7

    def broken() -> None:
        raise ZeroDivisionError

    async def calls() -> None:
        assert await in_database(quick) == 7
        with pytest.raises(ZeroDivisionError):
            await in_database(broken)

    asyncio.run(calls())
    task = type("Task", (), {"name": "scheduling.tick"})()
    traffic.TASKS.begin()
    traffic.TASKS.end(task=task, state="FAILURE")
    found = read()
    requests = {frozenset(labels): value for labels, value in found["trainmaster_requests_total"].items()}
    assert requests[frozenset({"grpc", "test_families.quick", "2xx"})] == 1
    assert requests[frozenset({"grpc", "test_families.broken", "5xx"})] == 1
    assert requests[frozenset({"task", "scheduling.tick", "5xx"})] == 1


def snapshot() -> Snapshot:
    slots = (SlotTelemetry(3, readings=dict.fromkeys(NAMES, 0.25)), SlotTelemetry(4))
    observed = Observed(
        attempts=(AttemptObserved("att-1", MemberPhase.RUNNING),),
        deployments=(DeploymentObserved("dep-1", TransferState.RECEIVING, rate_in=1e6),),
    )
    return Snapshot("gpu-1", "h100-80gb", True, 1500.0, Telemetry(1, 1, slots), observed)


@pytest.fixture
def server() -> Iterator[MetricsServer]:
    families = lambda: [*of_agent(snapshot()), GaugeMetricFamily("trainmaster_another", "Words.", value=1)]  # noqa: E731
    running_server = serve("127.0.0.1:0", TOKEN, families)
    yield running_server
    running_server.shutdown()
    running_server.server_close()


def get(url: str, token: str = TOKEN) -> tuple[int, str]:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_a_process_answers_prometheus_alone(server: MetricsServer) -> None:
    status, text = get(server.url)
    assert status == 200
    found = table(text)
    assert list(found["trainmaster_slot_tensor_active_ratio"].values()) == [0.25]
    assert list(found["trainmaster_agent_uploads_waiting_seconds"].values()) == [1.5]
    assert list(found["trainmaster_agent_receiving_bytes_per_second"].values()) == [1e6]
    assert "process_resident_memory_bytes" in found
    assert get(server.url, "another")[0] == get(server.url, "")[0] == 401
    assert get(server.url.removesuffix("metrics"))[0] == 404


@pytest.mark.parametrize(
    ("listen", "token", "why"),
    [
        ("127.0.0.1:9", "", "needs TRAINMASTER_METRICS_TOKEN"),
        ("9100", TOKEN, "must be HOST:PORT"),
        (":9100", TOKEN, "must be HOST:PORT"),
        ("127.0.0.1:90000", TOKEN, "must be HOST:PORT"),
    ],
)
def test_an_address_that_cannot_be_used_stops_the_start(listen: str, token: str, why: str) -> None:
    with override_settings(METRICS_TOKEN=token), pytest.raises(ImproperlyConfigured, match=why):
        expose("TRAINMASTER_GATEWAY_METRICS_LISTEN", listen, list)


def test_an_address_that_is_taken_stops_the_start(server: MetricsServer) -> None:
    taken = f"127.0.0.1:{server.server_port}"
    with override_settings(METRICS_TOKEN=TOKEN), pytest.raises(ImproperlyConfigured, match=taken):
        expose("TRAINMASTER_GATEWAY_METRICS_LISTEN", taken, list)
