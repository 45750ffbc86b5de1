"""Deployments in lines: counted by the database, however many nodes each goes to."""

from collections.abc import Callable

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from platform_core.distribution.deployments.progress import progress
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.deployments import queries
from webapp.deployments.mapping import deployment_value
from webapp.deployments.models import Deployment, Worker
from webapp.nodes.models import Node
from webapp.registry.models import ModelVersion
from webapp.rollouts import services as rollouts
from webapp.rollouts.models import RolloutMember
from webapp.rollouts.values import RolloutWish

STATES = ("complete", "failed", "evicted", "receiving")


def test_what_the_database_counts_is_what_the_core_counts(deployment: Deployment) -> None:
    for place, (worker, state) in enumerate(zip(queries.workers(deployment.id), STATES, strict=True)):
        Worker.objects.filter(id=worker.id).update(state=state, bytes_done=10 + place)
    told = queries.progress_of(deployment)
    assert told == progress(deployment_value(deployment, queries.workers(deployment.id)))
    assert (told.workers_complete, told.workers_failed, told.workers_evicted, told.bytes_done) == (
        1,
        1,
        1,
        46,
    )


def test_of_a_deployment_without_nodes_everything_is_there(deployment: Deployment) -> None:
    Worker.objects.all().delete()
    assert queries.progress_of(deployment).percent == 100


@pytest.mark.parametrize("url", ["/deployments/", "/models/vision/bytelm/", "/api/v1/deployments"])
def test_no_list_reads_the_rows_of_the_nodes(
    url: str, deployment: Deployment, owner: User, browser: Callable[[User], Client]
) -> None:
    asked = questions(browser(owner), url)
    assert not [sql for sql in asked if "chunks_done" in sql or "lanes" in sql]


def test_over_rest_only_the_canaries_of_a_rollout_are_read(
    version: ModelVersion, nodes: list[Node], owner: User, browser: Callable[[User], Client]
) -> None:
    row = rollouts.deploy(actor_of(owner), "vision/bytelm", version.version, wish=RolloutWish(canary="1"))
    RolloutMember.objects.filter(rollout=row.id, canary=False).update(state="failed")
    client = browser(owner)
    read = [sql for sql in questions(client, "/api/v1/deployments") if '"check_output"' in sql]
    assert [sql for sql in read if "canary" not in sql.partition("WHERE")[2]] == []
    told = client.get(f"/api/v1/deployments/{row.id}").json()["rollout"]
    assert (told["nodes"], told["nodes_failed"], len(told["canaries"])) == (4, 3, 1)


def test_over_rest_those_of_one_model_can_be_asked_for(
    deployment: Deployment, owner: User, browser: Callable[[User], Client]
) -> None:
    client = browser(owner)
    told = {
        model: [one["id"] for one in client.get("/api/v1/deployments", {"model_id": model}).json()["results"]]
        for model in ("vision/bytelm", "vision/other", "nlp/bytelm", "bytelm")
    }
    assert told == {"vision/bytelm": [deployment.id], "vision/other": [], "nlp/bytelm": [], "bytelm": []}


def questions(client: Client, url: str) -> list[str]:
    with CaptureQueriesContext(connection) as asked:
        assert client.get(url).status_code == 200
    return [query["sql"] for query in asked.captured_queries]
