"""What many nodes tell at once: the numbers of all of them, for as few questions as those of one."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from platform_core.node.observed import DeploymentObserved, TransferState
from tests.webapp.deployments.conftest import SIZE
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.deployments import queries, services
from webapp.deployments.models import Deployment, Worker
from webapp.events.queries import story
from webapp.nodes.models import Node
from webapp.registry.models import ModelVersion

SAID = DeploymentObserved(
    deployment_id="", state=TransferState.RECEIVING, bytes_done=100, bytes_total=SIZE, rate_in=1e6, rate_out=2e6,
    source="store",
)  # fmt: skip


@pytest.fixture
def large(version: ModelVersion, owner: User, node: Callable[..., Node]) -> Deployment:
    for index in range(24):
        node(f"node-{index}", rack=f"rack-{index % 3}")
    return services.create(actor_of(owner), "vision/bytelm", 1)


def words(deployment: Deployment, count: int, **changes: object) -> list[tuple[str, DeploymentObserved]]:
    said = replace(SAID, deployment_id=deployment.id, **changes)  # type: ignore[arg-type]
    return [(worker.node_id, said) for worker in queries.workers(deployment.id)[:count]]


def questions(told: list[tuple[str, DeploymentObserved]]) -> list[str]:
    with CaptureQueriesContext(connection) as asked:
        services.report_all(told)
    return [each["sql"] for each in asked.captured_queries]


def test_progress_of_all_asks_no_more_than_that_of_one_and_reads_nobody_elses_part(large: Deployment) -> None:
    services.report_all(words(large, 24))
    one = questions(words(large, 1, bytes_done=200))
    assert len(questions(words(large, 24, bytes_done=300))) == len(one)
    assert not any('ORDER BY "deployments_worker"."position"' in sql for sql in one), (
        "the machine was not woken"
    )
    assert set(Worker.objects.filter(deployment=large).values_list("bytes_done", flat=True)) == {300}
    assert set(Worker.objects.filter(deployment=large).values_list("moved_bytes", flat=True)) == {300}


def test_all_that_begin_at_once_take_one_step_each_in_a_few_statements(large: Deployment) -> None:
    few = len(questions(words(large, 2)))
    assert len(questions([*words(large, 24)[2:]])) <= few + 2
    told = [line.kind for line in story(f"deployment:{large.id}")]
    assert told.count("WorkerReceiving") == 24
    assert queries.find(large.id).state == "downloading"
    assert queries.find(large.id).version == 1 + 24


def test_several_words_of_one_node_count_in_their_order(deployment: Deployment) -> None:
    node, said = words(deployment, 1)[0]
    failed = replace(
        said, state=TransferState.FAILED, error_code="disk_full", error="needs 3 GiB", bytes_done=150
    )
    services.report_all([(node, said), (node, failed), (node, replace(said, bytes_done=160))])
    part = Worker.objects.get(deployment=deployment, node=node)
    assert (part.state, part.bytes_done, part.error) == ("receiving", 160, "")
    told = [line.kind for line in story(f"deployment:{deployment.id}")]
    assert told.count("WorkerFailed") == 1
    assert told.count("WorkerReceiving") == 2


def test_a_cancelled_deployment_counts_no_more_bytes(deployment: Deployment, owner: User) -> None:
    services.report_all(words(deployment, 1))
    services.cancel(actor_of(owner), deployment.id)
    services.report_all(words(deployment, 1, bytes_done=900))
    assert queries.workers(deployment.id)[0].bytes_done == 100


def test_a_word_of_no_deployment_or_of_a_stranger_is_passed_over(
    deployment: Deployment, node: Callable[..., Node]
) -> None:
    stranger = node("stranger")
    _, said = words(deployment, 1)[0]
    services.report_all([(stranger.id, said), (stranger.id, replace(said, deployment_id="dep-none"))])
    assert {worker.state for worker in queries.workers(deployment.id)} == {"idle"}


def test_nodes_lost_together_fail_in_one_step(large: Deployment) -> None:
    told = words(large, 24)
    services.report_all(told)
    row = Deployment.objects.get(id=large.id)
    services.nodes_lost(row, [node for node, _ in told[:10]])
    assert Worker.objects.filter(deployment=large, state="failed", error_code="node_unknown").count() == 10
    assert Deployment.objects.get(id=large.id).version == row.version == 1 + 24 + 10
