"""What the commands show to the owner, a member, an outsider and an admin, against the REST API as it is served."""

import csv
import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pytest_django.live_server_helper import LiveServer

from platform_core.node.description import SlotTelemetry, Telemetry
from tests.webapp.conftest import BOOTSTRAP, Cast, description, make_cast, make_teams
from trainmaster.cli import main
from webapp.accounts import queries as accounts
from webapp.accounts import tokens
from webapp.accounts.models import User
from webapp.artifacts.models import Manifest
from webapp.base.identity import now_ms
from webapp.experiments import queries
from webapp.experiments import services as experiments
from webapp.experiments.services import Point
from webapp.jobs import services as jobs
from webapp.jobs.models import Job
from webapp.metrics.values import Points
from webapp.nodes import liveness
from webapp.nodes import services as nodes
from webapp.quotas.models import Quota
from webapp.registry.models import Model, ModelVersion
from webapp.scheduling import services as scheduling

As = Callable[..., Result]


@pytest.fixture
def cast(transactional_db: None) -> Cast:
    vision, nlp = make_teams()
    for team in (vision, nlp):
        Quota.objects.create(team=team, gpu_type="cpu", guaranteed=2, maximum=8)
    return make_cast()


@pytest.fixture
def run_as(live_server: LiveServer, cast: Cast, monkeypatch: pytest.MonkeyPatch) -> As:
    """run_as(cast.owner, "queue", code=0): the command with a token of this person; an admin's has the scope admin."""

    def call(person: User, *words: str, code: int = 0) -> Result:
        actor = accounts.actor_of(person)
        made = (
            tokens.create_admin_token(actor, "operations", 1)
            if person == cast.admin
            else tokens.create_token(actor, "nlp" if person == cast.outsider else "vision", "laptop", 1)
        )
        monkeypatch.setenv("TRAINMASTER_URL", live_server.url)
        monkeypatch.setenv("TRAINMASTER_TOKEN", made.text)
        result = CliRunner().invoke(main, words)
        assert result.exit_code == code, result.output
        return result

    return call


def submitted(person: User, name: str = "toy-8", team: str = "vision", **fields: object) -> Job:
    mapping = {"name": name, "team": team, "command": "python a.py", "gpu_type": "cpu", **fields}
    return jobs.submit(accounts.actor_of(person), mapping)[0]


def words_of(result: Result) -> str:
    return " ".join(result.stdout.split())


def test_whoami_names_user_teams_server_and_the_tokens_end(
    run_as: As, cast: Cast, live_server: LiveServer
) -> None:
    shown = words_of(run_as(cast.owner, "whoami"))
    assert "user alice teams vision (member)" in shown
    assert f"server {live_server.url}" in shown
    assert "token laptop, for team vision expires in 23 h 59 min" in shown
    assert "admin yes" in words_of(run_as(cast.admin, "whoami"))
    assert json.loads(run_as(cast.outsider, "whoami", "--json").stdout)["teams"] == {"nlp": "member"}


def test_a_job_is_shown_by_its_name_to_those_who_may_see_it(run_as: As, cast: Cast) -> None:
    job = submitted(cast.owner)
    assert job.id in run_as(cast.owner, "show", "toy-8").stdout
    assert job.id in run_as(cast.member, "show", job.id[:12]).stdout
    assert "There is no job toy-8 you may see" in run_as(cast.outsider, "show", "toy-8", code=1).stderr
    other = submitted(cast.outsider, team="nlp")
    refused = run_as(cast.admin, "show", "toy-8", code=1).stderr
    assert f"toy-8 may be any of nlp/toy-8 ({other.id}), vision/toy-8 ({job.id})" in refused
    assert other.id in run_as(cast.admin, "show", "nlp/toy-8").stdout


def test_a_job_is_cancelled_and_its_log_read_by_its_name(run_as: As, cast: Cast) -> None:
    job = submitted(cast.owner)
    assert "You may not cancel another person's job" in run_as(cast.member, "cancel", "toy-8", code=1).stderr
    assert run_as(cast.owner, "logs", "toy-8").stdout == ""
    assert run_as(cast.owner, "cancel", "toy-8").stdout == f"{job.id} (toy-8) is cancelled.\n"


def test_the_queue_names_jobs_only_to_their_team(run_as: As, cast: Cast) -> None:
    assert run_as(cast.owner, "queue").stderr == "The queue is empty.\n"
    submitted(cast.owner, num_gpus=4)
    assert "1 toy-8 vision 4 cpu" in words_of(run_as(cast.member, "queue"))
    assert "1 a job of vision vision 4 cpu" in words_of(run_as(cast.outsider, "queue"))
    [entry] = json.loads(run_as(cast.admin, "queue", "--json").stdout)
    assert (entry["name"], entry["gpus"], entry["position"]) == ("toy-8", 4, 1)


def test_a_quota_shows_what_is_used_and_waited_for(run_as: As, cast: Cast) -> None:
    submitted(cast.owner, num_gpus=3)
    assert "vision cpu 2 8 0 0 3" in words_of(run_as(cast.owner, "quota"))
    assert "vision cpu 2 8 0 0 3" in words_of(run_as(cast.admin, "quota", "vision"))
    assert "nlp cpu 2 8 0 0 0 vision cpu" in words_of(run_as(cast.admin, "quota"))
    assert "There is no team vision you may see" in run_as(cast.outsider, "quota", "vision", code=1).stderr


def test_an_admin_drains_and_resumes_a_node_and_nobody_else_does(run_as: As, cast: Cast) -> None:
    node_id, _ = nodes.join(BOOTSTRAP, description())
    nodes.hello(node_id, description())
    assert "ask a platform admin" in run_as(cast.lead, "nodes", "drain", "node-1", code=1).stderr
    drained = run_as(cast.admin, "nodes", "drain", "node-1", "--reason", "new memory").stdout
    assert drained.startswith("node-1 is draining")
    assert run_as(cast.admin, "nodes", "resume", "node-1").stdout == "node-1 is ready.\n"
    booked = run_as(cast.admin, "nodes", "drain", "node-1", "--for", "2h").stdout
    assert booked == "node-1 is under maintenance for 2 h.\n"
    assert scheduling.tick()
    assert "drain" in run_as(cast.outsider, "nodes").stdout
    assert run_as(cast.admin, "nodes", "resume", node_id).stdout == "node-1 is ready.\n"
    assert "is not a duration" in run_as(cast.admin, "nodes", "drain", "node-1", "--for", "2", code=2).stderr


def test_runs_are_compared_by_name_and_as_csv(run_as: As, cast: Cast) -> None:
    for name, lr, loss in (("slow", 0.1, 2.0), ("quick", 0.2, 1.5)):
        job = submitted(cast.owner, name, experiment="rates", hyperparameters={"lr": lr})
        experiments.ingest(job.id, 1, [Point("loss", 1, loss, now_ms())])
    assert " rates vision 2 0 quick lowest loss 1.5" in words_of(run_as(cast.member, "experiments"))
    assert run_as(cast.outsider, "experiments").stderr.startswith("No experiments yet")
    shown = words_of(run_as(cast.member, "compare", "slow", "quick"))
    assert "lr 0.1 0.2 lowest loss 2 1.5 *" in shown
    rows = list(csv.DictReader(StringIO(run_as(cast.owner, "compare", "slow", "quick", "--csv").stdout)))
    assert [(row["name"], row["lr"], row["loss"]) for row in rows] == [
        ("slow", "0.1", "2.0"),
        ("quick", "0.2", "1.5"),
    ]
    assert "no job slow you may see" in run_as(cast.outsider, "compare", "slow", code=1).stderr


def test_datasets_are_listed_for_their_team(run_as: As, cast: Cast, tmp_path: Path) -> None:
    (folder := tmp_path / "data").mkdir()
    (folder / "a.bin").write_bytes(b"12345")
    pushed = run_as(
        cast.owner, "dataset", "push", str(folder), "--name", "tiny", "--purpose", "train,eval"
    ).stdout.strip()
    assert f"tiny 1 {pushed} vision ready train,eval 1 5 B" in words_of(
        run_as(cast.member, "dataset", "list")
    )
    assert run_as(cast.outsider, "dataset", "list").stderr.startswith("No datasets.")


def test_teams_are_listed_with_the_own_role(run_as: As, cast: Cast) -> None:
    assert "vision Vision member" in words_of(run_as(cast.owner, "teams"))
    assert "nlp Language" in words_of(run_as(cast.admin, "teams"))
    assert "vision" not in run_as(cast.outsider, "teams").stdout


def test_runs_are_listed_tagged_archived_deleted_and_restored_by_filter(run_as: As, cast: Cast) -> None:
    made = run_as(cast.owner, "experiments", "create", "rates", "--description", "# Why").stdout.strip()
    alice = accounts.actor_of(cast.owner)
    experiment = queries.find_experiment(alice, int(made))
    runs = [
        experiments.create_run(alice, experiment, name=f"lr {lr}", parameters={"lr": lr}) for lr in (1, 2, 3)
    ]
    for run, loss in zip(runs, (0.3, 0.1, 0.2), strict=True):
        experiments.log_points(alice, run, [Points("val/loss", [1], [loss], [now_ms()])])
    good = ("--filter", "metrics.val/loss < 0.25")
    listed = run_as(cast.member, "runs", "list", *good, "--order", "metrics.val/loss").stdout
    assert [line.split()[1:3] for line in listed.splitlines()[1:]] == [["lr", "2"], ["lr", "3"]]
    assert run_as(cast.member, "runs", "tag", *good, "--set", "stage=prod").stdout == "2 changed.\n"
    shown = words_of(run_as(cast.viewer, "runs", "show", runs[1].id))
    assert "experiment vision/rates state running owner alice" in shown
    assert "tags stage prod metrics val/loss 0.1" in shown
    assert run_as(cast.owner, "runs", "archive", "--filter", "tags.stage = 'prod'").stdout == "2 archived.\n"
    assert run_as(cast.owner, "runs", "restore", *good, "--archived").stdout == "2 restored.\n"
    assert "ask a lead of vision" in run_as(cast.member, "runs", "delete", *good, "--yes", code=1).stderr
    assert run_as(cast.lead, "runs", "delete", runs[0].id, "--yes").stdout == "1 deleted.\n"
    deleted = json.loads(run_as(cast.owner, "runs", "list", "--view", "deleted", "--json").stdout)
    assert [row["id"] for row in deleted] == [runs[0].id]
    assert run_as(cast.owner, "runs", "restore", "--filter", "name = 'lr 1'").stdout == "1 restored.\n"
    assert run_as(cast.outsider, "runs", "list").stderr == "No runs match.\n"
    refused = run_as(cast.owner, "runs", "list", "--filter", "name <> 1", code=1).stderr
    assert "not valid at character 6: write != instead of <>" in refused
    assert "Give ids of runs, or --filter" in run_as(cast.owner, "runs", "archive", code=2).stderr


def test_an_experiment_is_renamed_archived_deleted_and_restored_by_its_id(run_as: As, cast: Cast) -> None:
    made = run_as(cast.owner, "experiments", "create", "rates").stdout.strip()
    assert run_as(cast.owner, "experiments", "change", made, "--name", "speeds").stdout == (
        "Experiment speeds is changed.\n"
    )
    assert run_as(cast.owner, "experiments", "archive", made).stdout == "Experiment speeds is archived.\n"
    assert run_as(cast.owner, "experiments", "list").stderr.startswith("No experiments yet")
    assert run_as(cast.owner, "experiments", "restore", made).stdout == "Experiment speeds is restored.\n"
    assert "There is no experiment" in run_as(cast.outsider, "experiments", "delete", made, code=1).stderr
    assert (
        run_as(cast.owner, "experiments", "delete", made, "--yes").stdout == "Experiment speeds is deleted.\n"
    )
    assert run_as(cast.owner, "experiments", "restore", made).stdout == "Experiment speeds is restored.\n"


def test_an_admin_returns_a_slot_that_failed_and_everybody_reads_why(run_as: As, cast: Cast) -> None:
    node_id, _ = nodes.join(BOOTSTRAP, description())
    nodes.hello(node_id, description())
    slots = (SlotTelemetry(0, readings={"xid_79": 1.0}),)
    liveness.heard(node_id, Telemetry(10**12, 0, slots), now_ms())
    assert scheduling.tick()
    assert "XID 79: a GPU that fell off the bus" in run_as(cast.outsider, "nodes", "health", "node-1").stdout
    assert "ask a platform admin" in run_as(cast.lead, "nodes", "return", "node-1", code=1).stderr
    returned = run_as(cast.admin, "nodes", "return", "node-1", "--slot", "0").stdout
    assert returned == "Slot 0 of node-1 is in service.\n"
    assert "is not out of service" in run_as(cast.admin, "nodes", "return", "node-1", code=1).stderr


def test_the_stacks_of_a_job_that_waits_are_refused_with_the_reason(run_as: As, cast: Cast) -> None:
    submitted(cast.owner)
    assert (
        "the job is pending; it must be running"
        in run_as(cast.owner, "jobs", "stacks", "toy-8", code=1).stderr
    )
    assert "No stacks yet" in run_as(cast.owner, "jobs", "stacks", "toy-8", "--last").stderr
    assert "it must be running" in run_as(cast.owner, "jobs", "restart", "toy-8", code=1).stderr


def test_an_endpoint_is_made_changed_and_stopped_by_those_who_may(run_as: As, cast: Cast) -> None:
    manifest = Manifest.objects.create(
        id="man-1", kind="model", total_bytes=1, files=1, document={"files": []}, created_ms=1
    )
    model = Model.objects.create(team_id="vision", name="mlp", created_ms=1)
    for number in (1, 2):
        ModelVersion.objects.create(
            id=f"mv-{number}", model=model, version=number, source="", manifest=manifest, state="ready",
            created_by=cast.owner, created_ms=1,
        )  # fmt: skip
    assert run_as(cast.owner, "endpoints", "list").stderr.startswith("No endpoints yet")
    made = words_of(
        run_as(cast.owner, "endpoints", "create", "writer", "mlp", "--version", "1", "--max", "2")
    )
    assert made.startswith("vision/writer is starting with mlp version 1.")
    assert "writer vision starting mlp:1 0/1" in words_of(run_as(cast.viewer, "endpoints", "list"))
    assert run_as(cast.outsider, "endpoints", "list").stderr.startswith("No endpoints yet")
    missing = run_as(cast.outsider, "endpoints", "show", "vision/writer", code=1).stderr
    assert "There is no endpoint writer in team vision" in missing
    changed = run_as(cast.lead, "endpoints", "change", "writer", "2", "--share", "5", "--manual").stdout
    assert "version 2 is its canary" in changed
    assert "You may not change another person's endpoint" in (
        run_as(cast.member, "endpoints", "promote", "writer", code=1).stderr
    )
    assert "version 1." in run_as(cast.owner, "endpoints", "rollback", "writer").stdout
    run_as(cast.owner, "endpoints", "change", "writer", "2")
    assert "version 2." in run_as(cast.owner, "endpoints", "promote", "writer").stdout
    run_as(cast.owner, "endpoints", "scale", "writer", "1", "3")
    assert "limits 1 to 3" in words_of(run_as(cast.owner, "endpoints", "show", "writer"))
    assert (
        json.loads(run_as(cast.admin, "endpoints", "stop", "vision/writer", "--json").stdout)["state"]
        == "stopping"
    )
