"""The pages of endpoints: what they show, what their buttons do, and that replicas are no runs."""

import json
import re
from collections.abc import Callable
from typing import Any

from django.test import Client

from platform_core.serving.canary import CanaryPolicy
from platform_core.serving.latency import BUCKETS, bucket_of
from tests.webapp.conftest import Cast
from tests.webapp.world import endpoint_mapping
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.experiments.models import Run
from webapp.quotas.models import Quota
from webapp.registry.models import ModelVersion
from webapp.serving import coordination, queries, services
from webapp.serving.models import Endpoint, Replica
from webapp.serving.values import BUCKET_MS, TrafficCount

Browse = Callable[[User], Client]
QUERIES = 40  # of the page of one endpoint; the frame of every page and the session among them


def answered(row: Endpoint, version: str, requests: int, errors: int, latency_ms: float) -> None:
    """What a router counted in the last ten seconds that are over."""
    now = now_ms()
    latencies = [0] * BUCKETS
    latencies[bucket_of(latency_ms)] = requests
    at_ms = now - now % BUCKET_MS - BUCKET_MS
    services.count_traffic(
        "router", [TrafficCount(row.id, version, at_ms, requests, errors, 0, tuple(latencies))]
    )


def chart(page: str, name: str) -> Any:
    [data] = re.findall(rf'id="{name}".*?<script type="application/json">(.*?)</script>', page)
    return json.loads(data)


def test_a_replica_is_a_job_with_a_page_and_no_run(writer: Endpoint, cast: Cast, browser: Browse) -> None:
    replicas = list(Replica.objects.filter(endpoint=writer))
    assert len(replicas) == 2
    assert not Run.objects.exists()
    page = browser(cast.member).get(f"/jobs/{replicas[0].job_id}/")
    assert page.status_code == 200


def test_a_replica_with_several_gpus_has_them_on_one_node(cast: Cast, versions: list[ModelVersion]) -> None:
    row = services.create(actor_of(cast.owner), endpoint_mapping(gpus=2, runtime="eager", compile=True))
    job = services.replica_spec(row, "mv-1", "divided")
    assert (job.num_gpus, job.parallel.tp) == (2, 2)
    assert job.command[3:8] == ("--runtime", "eager", "--gpus", "2", "--compile")


def test_the_pages_show_replicas_traffic_and_the_canary(
    writer: Endpoint, cast: Cast, browser: Browse, django_assert_max_num_queries: Any
) -> None:
    answered(writer, "mv-1", 120, 3, 20.0)
    owner = browser(cast.owner)
    changed = {
        "version": "2",
        "share_percent": "25",
        "watch_minutes": "5",
        "min_requests": "100",
        "automatic": "on",
    }
    assert owner.post("/serving/vision/writer/version/", changed).status_code == 302
    Replica.objects.filter(endpoint=writer).update(state="ready")
    with django_assert_max_num_queries(QUERIES):
        page = owner.get("/serving/vision/writer/").content.decode()
    for replica in queries.replicas(writer.id):
        assert f'<a href="/jobs/{replica.job_id}/">{replica.job.name}</a>' in page
    assert "Canary: version 2" in page
    assert "25 % of the requests" in page
    assert "2.5 %" in page  # of the requests failed
    assert ">2</dd>" in page  # requests a second
    [line] = chart(page, "rate")["series"]
    assert (line["name"], line["y"]) == ("v1", [12.0])
    assert [line["name"] for line in chart(page, "latency")["series"]] == ["v1 p50", "v1 p99"]
    listed = owner.get("/serving/").content.decode()
    assert "canary v2" in listed
    assert ">2/2</td>" in listed


def test_a_canary_takes_the_slot_of_a_stable_replica_where_the_quota_is_full(
    writer: Endpoint, cast: Cast
) -> None:
    Quota.objects.update(guaranteed=2, maximum=2, queue_beyond=False)
    services.change_version(actor_of(cast.owner), "vision", writer.name, 2, CanaryPolicy(share=5_000))
    coordination.advance(writer.id)
    writer.refresh_from_db()
    assert writer.reason.startswith("would exceed quota: 3/2 slots of cpu")
    assert [one.model_version_id for one in queries.replicas(writer.id)] == ["mv-1"]
    for _ in range(3):
        coordination.advance(writer.id)
        serving = [one.model_version_id for one in queries.replicas(writer.id)]
        assert sorted(serving) == ["mv-1", "mv-2"]


def test_the_buttons_are_for_those_who_may_change_it(writer: Endpoint, cast: Cast, browser: Browse) -> None:
    assert "Change version" not in browser(cast.member).get("/serving/vision/writer/").content.decode()
    lead = browser(cast.lead)
    assert "Change version" in lead.get("/serving/vision/writer/").content.decode()
    limits = {"min_replicas": "3", "max_replicas": "2"}
    refused = lead.post("/serving/vision/writer/scale/", limits)
    assert refused.status_code == 422
    assert "more than max_replicas 2" in refused.content.decode()
    assert lead.post("/serving/vision/writer/scale/", limits | {"max_replicas": "4"}).status_code == 302
    word = lead.post("/serving/vision/writer/version/", {"version": "2", "share_percent": "much"})
    assert (word.status_code, "it must be a number from 0.01 to 100" in word.content.decode()) == (400, True)
    nothing = lead.post("/serving/vision/writer/promote/")
    assert (nothing.status_code, "no canary is being watched" in nothing.content.decode()) == (400, True)
    assert lead.post("/serving/vision/writer/stop/").status_code == 302
    writer.refresh_from_db()
    assert (writer.stopped, writer.spec["max_replicas"]) == (True, 4)


def test_the_form_says_what_is_wrong_and_makes_an_endpoint(
    versions: list[ModelVersion], cast: Cast, browser: Browse
) -> None:
    owner = browser(cast.owner)
    assert "No endpoints yet" in owner.get("/serving/").content.decode()
    form = {
        "name": "Not So",
        "model": "vision/bytelm",
        "version": "2",
        "gpu_type": "cpu",
        "min_replicas": "x",
    }
    refused = owner.post("/serving/create/", form)
    assert refused.status_code == 422
    assert refused.content.decode().count('class="problem"') == 2
    made = owner.post(
        "/serving/create/", form | {"name": "so", "min_replicas": "0", "target_latency_ms": "50", "gpus": "2"}
    )
    assert made.headers["Location"] == "/serving/vision/so/"
    row = Endpoint.objects.get(name="so")
    assert (row.stable_id, row.spec["target_latency_ms"], row.spec["min_replicas"]) == ("mv-2", 50, 0)
    assert row.spec["gpus"] == 2
    rarer = {"version": "2", "sample_percent": "20", "collect_for": "training, evaluation", "redact": "age"}
    refused = owner.post("/serving/create/", form | rarer | {"min_replicas": "1", "alias": "best"})
    assert "<details open>" in refused.content.decode()
    assert "an endpoint follows one of them" in refused.content.decode()
    assert (
        owner.post("/serving/create/", form | rarer | {"name": "rare", "min_replicas": "1"}).status_code
        == 302
    )
    spec = Endpoint.objects.get(name="rare").spec
    assert (spec["sample_percent"], spec["collect_for"], spec["redact"]) == (
        20,
        ["training", "evaluation"],
        ["age"],
    )
    assert "No model to serve" in browser(cast.outsider).get("/serving/create/").content.decode()
