"""The commands and the client of the SDK against the REST API as it is served."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pytest_django.live_server_helper import LiveServer

from platform_core.alerting.machine import AlertState
from platform_core.jobs.spec import parse
from tests.webapp.conftest import BOOTSTRAP, description, make_cast, make_teams
from trainmaster.cli import main
from trainmaster.client import ApiError, Client
from webapp.accounts import queries as accounts
from webapp.accounts import tokens
from webapp.alerts.models import Alert
from webapp.nodes import services as clusters
from webapp.quotas.models import Quota

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "bytelm"
Trainmaster = Callable[..., Result]


@pytest.fixture
def token(transactional_db: None) -> str:
    """Alice's, for vision, which may hold 8 CPU slots."""
    vision, _ = make_teams()
    cast = make_cast()
    Quota.objects.create(team=vision, gpu_type="cpu", guaranteed=8, maximum=8, queue_beyond=False)
    return tokens.create_token(accounts.actor_of(cast.owner), "vision", "laptop", 1).text


@pytest.fixture
def trainmaster(
    live_server: LiveServer, token: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Trainmaster]:
    monkeypatch.setenv("TRAINMASTER_URL", live_server.url)
    monkeypatch.setenv("TRAINMASTER_TOKEN", token)

    def call(*words: str, code: int = 0) -> Result:
        result = CliRunner().invoke(main, words)
        assert result.exit_code == code, result.output
        return result

    return call


def test_a_day_of_a_person_at_the_command_line(trainmaster: Trainmaster, tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "a.py").write_text("a")
    (tmp_path / "train" / "__init__.py").write_text("")
    push = ("dataset", "push", str(tmp_path), "--name", "stdlib", "--purpose", "train")
    snapshot = trainmaster(*push).stdout.strip()
    assert trainmaster(*push).stdout.strip() == snapshot

    submit = ("submit", str(EXAMPLE / "job.yaml"), "--set", f"dataset={snapshot}", "--set", "purpose=train")
    job_id, url = trainmaster(*submit, "--key", "once").stdout.split()
    assert url.endswith(f"/jobs/{job_id}/")
    assert trainmaster(*submit, "--key", "once").stdout.split()[0] == job_id
    [listed] = json.loads(trainmaster("jobs", "--state", "waiting", "--json").stdout)
    assert (listed["id"], listed["num_gpus"]) == (job_id, 4)
    lineage = json.loads(trainmaster("show", job_id, "--json").stdout)["lineage"]
    assert "git_commit" in lineage or "submitted_from" in lineage
    assert job_id in trainmaster("jobs", "--search", "byte").stdout
    assert "bytelm" in trainmaster("show", job_id).stdout
    (tmp_path / "again.yaml").write_text(trainmaster("show", job_id, "--spec").stdout)
    trainmaster("submit", str(tmp_path / "again.yaml"))
    assert trainmaster("logs", job_id).stdout == ""
    assert trainmaster("cancel", job_id).stdout == f"{job_id} (bytelm) is cancelled.\n"
    assert trainmaster("logs", "-f", job_id).stdout == ""


def test_refusals_reach_the_person_with_their_numbers(trainmaster: Trainmaster) -> None:
    told = trainmaster("submit", str(EXAMPLE / "job.yaml"), "--set", "num_gpus=12", code=1).stderr
    assert "would exceed quota: 12/8" in told
    assert "job-nothing" in trainmaster("show", "job-nothing", code=1).stderr
    assert trainmaster("deploy", "bytelm", "1", code=1).stderr.startswith("Error: There is no version 1")
    assert "ckpt-none" in trainmaster("register", "bytelm", "--checkpoint", "ckpt-none", code=1).stderr


def test_nodes_models_and_deployments_are_listed(trainmaster: Trainmaster) -> None:
    clusters.join(BOOTSTRAP, description())
    assert "node-1" in trainmaster("nodes").stdout
    assert "No models yet" in trainmaster("models").stderr
    assert "No deployments yet" in trainmaster("deployments").stderr


def test_service_levels_are_listed_and_only_admins_set_them(trainmaster: Trainmaster) -> None:
    listed = trainmaster("service-levels").stdout
    assert "recovery_time" in listed
    assert "no data" in listed
    assert "100 %" not in listed
    [*_, last] = json.loads(trainmaster("service-levels", "--team", "vision", "--json").stdout)["results"]
    assert (last["code"], last["standing"]) == ("completion", "no_data")
    refused = trainmaster("service-levels", "set", "recovery", "--target", "99", code=1).stderr
    assert "platform admin" in refused
    assert "--default alone" in trainmaster("service-levels", "set", "recovery", code=2).stderr


def test_a_plan_says_that_its_gpus_have_no_price(trainmaster: Trainmaster, tmp_path: Path) -> None:
    question = tmp_path / "model.yaml"
    question.write_text("model: {layers: 2, hidden: 256, heads: 4}\ngpus: 2\nglobal_batch: 8\n")
    assert "no price" not in trainmaster("plan", str(question)).stdout  # of a step there is no cost
    assert "no price" in trainmaster("plan", str(question), "--tokens", "1").stdout


def test_a_configuration_of_a_kind_that_is_not_known_is_refused_in_one_sentence(
    trainmaster: Trainmaster, tmp_path: Path
) -> None:
    file = tmp_path / "config.json"
    for config in (
        {"model_type": "t5", "d_model": 512, "num_heads": 8, "num_layers": 6, "vocab_size": 32_128},
        {
            "model_type": "llava",
            "text_config": {"model_type": "llama"},
            "vision_config": {"hidden_size": 1_024},
        },
        {"architectures": ["Unknown"], "d_model": 512},
    ):
        file.write_text(json.dumps(config))
        refused = trainmaster("plan", str(file), code=1).stderr
        assert "config describes no model that can be planned" in refused
        assert "is not a field" not in refused


def test_the_list_of_alerts_says_who_looks_after_one(trainmaster: Trainmaster) -> None:
    numbers = dict.fromkeys(("since_ms", "began_ms", "seen_ms", "fired_ms", "value", "worst"), 1)
    Alert.objects.create(
        id="alert-1",
        rule="job_underused",
        severity="warning",
        team="vision",
        state=AlertState.FIRING,
        **numbers,
    )
    assert "firing " in trainmaster("alerts").stdout
    trainmaster("alerts", "acknowledge", "alert-1", "--note", "the fan is on its way")
    assert "firing, acknowledged by alice" in trainmaster("alerts").stdout


def test_what_the_client_cannot_check_itself_comes_back_by_field(live_server: LiveServer, token: str) -> None:
    with Client(live_server.url, token) as client:
        assert client.me().token_team == "vision"
        with pytest.raises(ApiError) as raised:
            client.submit({"name": "x", "team": "vision", "num_gpus": 0}, idempotency_key="k")
        assert (raised.value.status, raised.value.code) == (422, "spec_invalid")
        assert {field for field, _ in raised.value.problems} == {"command", "gpu_type", "num_gpus"}
        job = client.submit(
            {"name": "x", "team": "vision", "command": "python a.py", "gpu_type": "cpu"}, idempotency_key="k"
        )
        assert parse(job.spec).name == "x"
        assert client.events(job.id)[0]["kind"] == "Submitted"
        assert client.checkpoints(job.id) == []
        assert client.metrics(job.id)["series"] == {}
