"""A family from data to service: it is traced from every member, and a recall reaches all of it and nothing else."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from platform_core.errors import TrainmasterError
from platform_core.jobs.spec import SpecError
from platform_core.lineage.graph import Item, Kind
from platform_core.serving.canary import CanaryPolicy
from tests.webapp.conftest import Cast
from tests.webapp.world import World, build, endpoint_mapping, job_mapping
from webapp.accounts import services as accounts
from webapp.accounts.models import Mail, Role, User
from webapp.accounts.permissions import SYSTEM
from webapp.accounts.queries import actor_of
from webapp.checkpoints import queries as checkpoints
from webapp.checkpoints.models import Checkpoint
from webapp.checkpoints.retention import of_job
from webapp.datasets import queries as dataset_queries
from webapp.datasets import services as datasets
from webapp.datasets.models import DatasetSnapshot
from webapp.deployments import services as deployments
from webapp.events.queries import story
from webapp.jobs import services as jobs
from webapp.jobs.models import Job
from webapp.lineage import queries, services
from webapp.lineage.services import Wish
from webapp.quotas.models import Quota
from webapp.recalls import queries as recalls
from webapp.registry import services as registry
from webapp.registry.models import ModelVersion
from webapp.serving import services as serving
from webapp.serving.models import Endpoint

Api = Callable[..., APIClient]
REASON = "labels are shifted by one"


@dataclass(frozen=True)
class Chain:
    """data → job → checkpoints 10 and 20 → version 2 → endpoint; another job goes on from checkpoint 20."""

    data: Item
    job: Item
    earlier: Item
    checkpoint: Item
    version: Item
    endpoint: Item
    successor: Item

    @property
    def marked(self) -> set[Item]:
        return {self.data, self.job, self.earlier, self.checkpoint, self.version, self.successor}


@pytest.fixture
def world(cast: Cast) -> World:
    return build(cast)


@pytest.fixture
def chain(cast: Cast, world: World) -> Chain:
    alice = actor_of(cast.owner)
    job, _ = jobs.submit(alice, job_mapping(name="trains", dataset=world.snapshot, purpose="eval"))
    earlier, later = (
        Checkpoint.objects.create(
            id=f"ckpt-00000000000000{step}", job=job, attempt=1, step=step, manifest_id=world.model_manifest,
            saved_ms=step,
        )
        for step in (10, 20)
    )  # fmt: skip
    version = registry.register(alice, "vision", "bytelm", checkpoint=later.id)
    endpoint = serving.create(alice, endpoint_mapping(name="chat", version=2))
    successor, _ = jobs.submit(alice, job_mapping(name="goes-on", resume_from=later.id))
    return Chain(
        Item(Kind.DATASET, world.snapshot), Item(Kind.RUN, job.id), Item(Kind.CHECKPOINT, earlier.id),
        Item(Kind.CHECKPOINT, later.id), Item(Kind.MODEL, version.id), Item(Kind.ENDPOINT, endpoint.id),
        Item(Kind.RUN, successor.id),
    )  # fmt: skip


def test_a_family_is_traced_from_both_ends(cast: Cast, chain: Chain) -> None:
    alice = actor_of(cast.owner)
    down = queries.family(alice, chain.data).down
    assert set(down.depths) == chain.marked | {chain.endpoint}
    assert down.depths[chain.endpoint] == 4
    up = queries.family(alice, chain.endpoint).up
    assert set(up.items) == {chain.version, chain.checkpoint, chain.job, chain.data}
    assert queries.family(alice, chain.successor).up.depths[chain.data] == 3
    evaluated = queries.family(alice, chain.version)
    assert {item.kind for item in evaluated.down.items} == {Kind.ENDPOINT}


def test_a_recall_reaches_every_team_and_outsiders_learn_nothing(cast: Cast, api: Api, chain: Chain) -> None:
    granted(cast)
    lead, carol = actor_of(cast.lead), actor_of(cast.outsider)
    foreign, _ = jobs.submit(
        carol, job_mapping(name="theirs", team="nlp", dataset=chain.data.id, purpose="report")
    )
    theirs = Item(Kind.RUN, foreign.id)
    family = queries.family(actor_of(cast.owner), chain.data)
    assert theirs not in family.described
    assert family.hidden == 1
    seen = queries.family(carol, theirs)
    assert set(seen.up.items) == {chain.data}
    for item in (chain.job, chain.version, chain.endpoint):
        with pytest.raises(TrainmasterError, match="There is no"):
            queries.family(carol, item)
    done = services.recall(lead, chain.data, REASON)
    assert set(recalls.items_of(done)) == chain.marked | {theirs}
    assert Job.objects.get(id=foreign.id).state == "cancelled"
    body = api(cast.outsider, "nlp").get(f"/api/v1/lineage/run/{foreign.id}").json()
    why = body["item"]["recalled"]
    assert why.startswith("it comes from dataset stdlib v1, recalled by lena on 20")
    assert why.endswith(REASON)
    assert api(cast.outsider, "nlp").get("/api/v1/recalls").json()["results"] == []


def granted(cast: Cast) -> None:
    """Team nlp, which carol leads now, may use the data of vision for reports."""
    Quota.objects.create(team_id="nlp", gpu_type="cpu", guaranteed=1, maximum=2)
    accounts.set_role(SYSTEM, "nlp", cast.outsider.username, Role.LEAD)
    lead = actor_of(cast.admin)
    datasets.describe(lead, "vision", "stdlib", listed=True)
    request = datasets.request_access(actor_of(cast.outsider), "vision", "stdlib", "nlp", "report")
    datasets.decide(lead, request.id, approve=True)


def test_nothing_new_is_made_from_what_is_recalled_until_it_is_lifted(
    cast: Cast, world: World, chain: Chain
) -> None:
    alice = actor_of(cast.owner)
    version = ModelVersion.objects.get(id=chain.version.id)
    doors: dict[str, Callable[[], object]] = {
        "data": lambda: jobs.submit(alice, job_mapping(name="a", dataset=world.snapshot, purpose="eval")),
        "checkpoint": lambda: jobs.submit(alice, job_mapping(name="b", resume_from=chain.checkpoint.id)),
        "model": lambda: jobs.submit(alice, job_mapping(name="c", model="bytelm:2")),
        "register": lambda: registry.register(alice, "vision", "bytelm", checkpoint=chain.checkpoint.id),
        "stage": lambda: registry.set_stage(alice, ModelVersion.objects.get(pk=version.pk), "staging"),
        "alias": lambda: registry.set_alias(alice, ModelVersion.objects.get(pk=version.pk), "champion"),
        "deploy": lambda: deployments.what_and_where(alice, "vision/bytelm", 2, [world.node]),
        "serve": lambda: serving.create(alice, endpoint_mapping(name="another", version=2)),
        "canary": lambda: serving.change_version(alice, "vision", "chat", 1, CanaryPolicy()),
    }
    recall = services.recall(alice, chain.data, REASON, Wish(stop_jobs=False, withdraw=False))
    doors.pop("canary")()  # to a version that is not recalled the way is open
    serving.roll_back(alice, "vision", "chat")
    for name, enter in doors.items():
        with pytest.raises((TrainmasterError, SpecError)) as caught:
            enter()
        assert REASON in str(caught.value), name
    assert not checkpoints.living(job=chain.job.id).exists()
    services.lift(alice, recall.id)
    assert recalls.marks(chain.marked) == {}
    assert ModelVersion.objects.get(pk=version.pk).stage == "candidate"  # its gate proves it anew
    for enter in doors.values():
        enter()


def test_jobs_stop_services_go_back_and_owners_are_told(
    cast: Cast, world: World, chain: Chain, settings: Any
) -> None:
    settings.MAIL_URL = "smtp://localhost"
    User.objects.filter(pk=cast.owner.pk).update(email="alice@example.org")
    alice, lead = actor_of(cast.owner), actor_of(cast.lead)
    registry.set_stage(alice, ModelVersion.objects.get(id=chain.version.id), "production")
    registry.set_alias(alice, ModelVersion.objects.get(id=chain.version.id), "champion")
    done = services.recall(lead, chain.data, REASON)
    assert sorted(done.outcome) == [
        "bytelm v2 is not called champion any more", "bytelm v2 left production", "cancelled job goes-on",
        "cancelled job trains", "endpoint chat goes back from version 2 to 1",
    ]  # fmt: skip
    endpoint = Endpoint.objects.get(id=chain.endpoint.id)
    assert endpoint.canary is not None
    assert (endpoint.canary.version, endpoint.canary_policy["share"]) == (1, 10_000)
    assert ModelVersion.objects.get(id=chain.version.id).stage == "recalled"
    (mail,) = Mail.objects.filter(key__startswith="recall:")
    assert REASON in mail.text
    assert "endpoint chat" in mail.text
    assert "run trains" in mail.text
    assert [event.kind for event in story(f"job:{chain.job.id}")].count("Recalled") == 1
    again = services.recall(lead, chain.data, "once more")
    assert (again.id, again.reason) == (done.id, REASON)


def test_a_job_goes_on_from_the_newest_checkpoint_that_is_not_recalled(
    cast: Cast, browser: Callable[[User], Client], chain: Chain
) -> None:
    alice = actor_of(cast.owner)
    Job.objects.filter(id=chain.job.id).update(
        latest_checkpoint=chain.checkpoint.id, latest_step=20, latest_attempt=1
    )
    done = services.recall(alice, chain.checkpoint, "a rank wrote zeros")
    assert "job trains goes on from another checkpoint than step 20" in done.outcome
    job = Job.objects.get(id=chain.job.id)
    assert (job.state, job.latest_checkpoint, job.latest_step) == ("pending", chain.earlier.id, 10)
    assert Job.objects.get(id=chain.successor.id).state == "cancelled"
    stays = {row.id: reason.stays for row, reason in of_job(job)}
    assert "last" not in stays[chain.checkpoint.id]
    assert stays[chain.checkpoint.id]  # it stays as evidence
    tab = browser(cast.owner).get(f"/jobs/{job.id}/?tab=checkpoints").content.decode()
    assert tab.count("Nothing may be made from it; its lineage says why.") == 1


def test_a_shard_recalls_all_versions_that_have_it(cast: Cast, api: Api, chain: Chain) -> None:
    first = DatasetSnapshot.objects.get(id=chain.data.id)
    (path,) = [file["path"] for file in dataset_queries.files(first)]
    again = datasets.add_snapshot(
        actor_of(cast.owner), first.team_id, first.name, str(first.manifest_id), "train,eval"
    )
    body = {"kind": "dataset", "item": first.id, "reason": REASON}
    missing = api(cast.owner).post("/api/v1/recalls", {**body, "shard": "none.tar"}, format="json")
    assert (missing.status_code, "file none.tar in" in missing.json()["detail"]) == (404, True)
    wrong = {**body, "kind": "run", "item": chain.job.id, "shard": path}
    assert api(cast.owner).post("/api/v1/recalls", wrong, format="json").status_code == 400

    row = api(cast.owner).post("/api/v1/recalls", {**body, "shard": path}, format="json")

    assert row.status_code == 201
    assert row.json()["reason"] == f"shard {path}: {REASON}"
    for snapshot in (first.id, again.id):
        assert f"shard {path}" in recalls.why(Kind.DATASET, snapshot)


def test_what_cannot_be_recalled_says_what_can(cast: Cast, chain: Chain) -> None:
    alice = actor_of(cast.owner)
    with pytest.raises(TrainmasterError, match="recall one of checkpoint, dataset, model, run instead"):
        services.recall(alice, chain.endpoint, REASON)
    with pytest.raises(TrainmasterError, match="say what is wrong"):
        services.recall(alice, chain.data, "  ")
    with pytest.raises(TrainmasterError, match="You may not recall another person's"):
        services.recall(actor_of(cast.member), chain.data, REASON)


def test_the_page_shows_the_family_and_recalls_it(
    cast: Cast, browser: Callable[[User], Client], chain: Chain
) -> None:
    client = browser(cast.owner)
    address = f"/lineage/dataset/{chain.data.id}/"
    page = client.get(address).content.decode()
    for words in (
        "trains, step 20",
        "bytelm v2",
        "endpoint",
        "2 runs, 2 checkpoints, 1 model version and 1 endpoint",
    ):
        assert words in page
    refused = client.post(address + "recall/", {"reason": " "})
    assert refused.status_code == 422
    assert "say what is wrong" in refused.content.decode()
    client.post(address + "recall/", {"reason": REASON, "stop_jobs": "on", "withdraw": "on"})
    shown = client.get(address).content.decode()
    assert "Endpoint chat goes back from version 2 to 1." in shown
    assert REASON in client.get("/recalls/").content.decode()
    assert client.get("/lineage/nonsense/1/").status_code == 404
    assert client.get("/lineage/evaluation/abc/").status_code == 404
