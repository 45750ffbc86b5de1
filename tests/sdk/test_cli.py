"""Commands against a platform that is a real HTTP server."""

import json
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.sdk.platform_stub import TOKEN, PlatformStub
from trainmaster.cli import logs, main
from trainmaster.client import Client

Trainmaster = Callable[..., Result]
JOB = {"id": "job-1", "name": "bytelm", "team": "vision", "state": "pending", "url": "http://p/jobs/job-1/"}
ME = {"username": "alice", "teams": {"vision": "lead", "nlp": "member"}, "token_team": "vision"}


@pytest.fixture
def trainmaster(platform: PlatformStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trainmaster:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("TRAINMASTER_URL", platform.url)
    monkeypatch.setenv("TRAINMASTER_TOKEN", TOKEN)
    monkeypatch.chdir(tmp_path)

    def call(*words: str, typed: str = "", code: int = 0) -> Result:
        result = CliRunner().invoke(main, words, input=typed)
        assert result.exit_code == code, result.output
        return result

    return call


def test_login_tries_the_token_and_keeps_it_for_this_user_only(
    trainmaster: Trainmaster, platform: PlatformStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRAINMASTER_URL")
    monkeypatch.delenv("TRAINMASTER_TOKEN")
    platform.answer("GET me", ME)
    platform.answer("GET nodes", [])
    assert "No platform is known" in trainmaster("nodes", code=1).stderr
    assert "Log in" not in trainmaster("login", platform.url, "--token-stdin", typed="wrong\n", code=1).stdout
    told = trainmaster("login", f"{platform.url}/", "--token-stdin", typed=f"{TOKEN}\n")
    assert told.stdout == f"Logged in to {platform.url} as alice, for team vision.\n"
    file = tmp_path / "config" / "trainmaster" / "config.toml"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    trainmaster("nodes")


def test_a_stored_token_is_not_shown_to_another_platform(
    trainmaster: Trainmaster, platform: PlatformStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRAINMASTER_TOKEN")
    config = tmp_path / "config" / "trainmaster"
    config.mkdir(parents=True)
    (config / "config.toml").write_text('url = "https://elsewhere.example"\ntoken = "tm_other"\n')
    assert f"no token for {platform.url}" in trainmaster("nodes", code=1).stderr
    assert platform.asked == []


def test_a_job_goes_with_its_code_and_lineage(
    trainmaster: Trainmaster, platform: PlatformStub, tmp_path: Path
) -> None:
    (tmp_path / "job.yaml").write_text(
        "name: bytelm\ncode: .\ncommand: python train.py\ngpu_type: cpu\nhyperparameters: {lr: 1e-3, width: 8}\n"
    )
    (tmp_path / "train.py").write_text("print(1)")
    platform.answer("GET me", ME)
    platform.answer("POST uploads", {"id": "up-1"}, 201)
    for name in ("job.yaml", "train.py"):
        platform.answer(f"PUT uploads/up-1/files/{name}", {}, 201)
    platform.answer("POST uploads/up-1/complete", {"manifest": "man-1"}, 201)
    platform.answer("POST training-jobs", {**JOB, "waiting": {"sentence": "2 of 4 slots are free"}}, 201)
    told = trainmaster("submit", "job.yaml", "--set", "hyperparameters.lr=3e-4", "--key", "again")
    assert told.stdout == "job-1\nhttp://p/jobs/job-1/\n"
    assert "2 of 4 slots are free" in told.stderr
    [asked] = platform.requests("POST", "training-jobs")
    assert asked.headers["idempotency-key"] == "again"
    body = asked.json
    assert body.pop("lineage")["submitted_from"].endswith(str(tmp_path))
    assert body == {
        "name": "bytelm",
        "code": "man-1",
        "command": "python train.py",
        "gpu_type": "cpu",
        "hyperparameters": {"lr": 0.0003, "width": 8},
        "team": "vision",
    }


def test_all_mistakes_of_a_job_file_are_told_before_anything_is_sent(
    trainmaster: Trainmaster, platform: PlatformStub, tmp_path: Path
) -> None:
    (tmp_path / "job.yaml").write_text(
        "name: x\nteam: vision\ncode: .\nnum_gpus: 0\ncomand: python train.py\ngpu_type: cpu\n"
    )
    told = trainmaster("submit", "job.yaml", code=1).stderr
    assert told.startswith("Error: The job description is not valid.\n")
    assert "  num_gpus: " in told
    assert "  comand: " in told
    assert platform.asked == []


def test_a_refusal_of_the_platform_is_one_sentence(
    trainmaster: Trainmaster, platform: PlatformStub, tmp_path: Path
) -> None:
    (tmp_path / "job.yaml").write_text("name: x\nteam: vision\ncommand: python train.py\ngpu_type: cpu\n")
    platform.refuse("POST training-jobs", 409, "quota_exceeded", "would exceed quota: 12/8 GPUs of cpu")
    assert trainmaster("submit", "job.yaml", code=1).stderr == "Error: would exceed quota: 12/8 GPUs of cpu\n"


def test_mistakes_of_usage_have_their_own_exit_code(trainmaster: Trainmaster, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("name: x\n")
    trainmaster("submit", "gone.yaml", code=2)
    trainmaster("submit", "job.yaml", "--set", "name", code=2)
    trainmaster("register", "bytelm", code=2)
    trainmaster("deploy", "bytelm", "zero", code=2)


def test_a_wrong_token_tells_what_to_do(trainmaster: Trainmaster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINMASTER_TOKEN", "wrong")
    assert "Run `trainmaster login`." in trainmaster("jobs", code=1).stderr


def test_jobs_are_a_table_for_people_and_json_for_programs(
    trainmaster: Trainmaster, platform: PlatformStub
) -> None:
    progress = {"step": 50, "total_steps": 200, "loss": 2.345678}
    running = {
        **JOB,
        "state": "running",
        "num_gpus": 4,
        "gpu_type": "cpu",
        "progress": progress,
        "submitted_ms": 1,
    }
    platform.answer("GET training-jobs", {"results": [running, JOB], "next": None})
    lines = trainmaster("jobs").stdout.splitlines()
    assert lines[0].split()[:4] == ["ID", "NAME", "TEAM", "STATE"]
    assert lines[1].split()[:9] == [
        "job-1",
        "bytelm",
        "vision",
        "running",
        "50/200",
        "2.346",
        "4",
        "cpu",
        lines[1].split()[8],
    ]
    assert json.loads(trainmaster("jobs", "--json").stdout)[0]["progress"]["step"] == 50


def test_show_tells_why_a_job_waits(trainmaster: Trainmaster, platform: PlatformStub) -> None:
    waiting = {"code": "no_free_slots", "sentence": "needs 4 slots, 2 are free", "position": 3}
    platform.answer(
        "GET training-jobs/job-1", {**JOB, "waiting": waiting, "spec": {"name": "bytelm", "num_gpus": 4}}
    )
    told = trainmaster("show", "job-1").stdout
    assert "needs 4 slots, 2 are free (number 3 in the queue)" in told
    assert trainmaster("show", "job-1", "--spec").stdout == "name: bytelm\nnum_gpus: 4\n"


def test_jobs_and_deployments_are_cancelled_by_their_id(
    trainmaster: Trainmaster, platform: PlatformStub
) -> None:
    platform.answer("POST training-jobs/job-1/cancel", {**JOB, "state": "running", "stopping": "cancel"}, 202)
    platform.answer("DELETE deployments/dep-1", {"id": "dep-1", "status": "cancelled"})
    assert trainmaster("cancel", "job-1").stdout == "job-1 is running and stops now.\n"
    assert trainmaster("cancel", "dep-1").stdout == "dep-1 is cancelled.\n"


def line(text: str, rank: int = 0, attempt: int = 1) -> dict[str, object]:
    return {"text": text, "rank": rank, "attempt": attempt, "offset": 0, "at_ms": 1}


def test_logs_are_printed_to_their_end(trainmaster: Trainmaster, platform: PlatformStub) -> None:
    path = "GET training-jobs/job-1/logs?after="
    platform.answer(f"{path}0", {"lines": [line("a"), line("b", rank=1)], "next": 7, "ended": False})
    platform.answer(f"{path}7", {"lines": [line("c", 1_000_001), line("d", 0, 2)], "next": 9, "ended": False})
    platform.answer(f"{path}9", {"lines": [], "next": 9, "ended": False})
    assert trainmaster("logs", "job-1").stdout == "[0] a\n[1] b\n[node 1] c\n[2.0] d\n"


def test_following_goes_on_until_no_more_lines_can_come(
    platform: PlatformStub, capsys: pytest.CaptureFixture[str]
) -> None:
    platform.answer("GET training-jobs/job-1", JOB)
    path = "GET training-jobs/job-1/logs?after="
    platform.answer(f"{path}0", {"lines": [], "next": 0, "ended": False})
    platform.answer(f"{path}0", {"lines": [line("late")], "next": 5, "ended": False})
    platform.answer(f"{path}5", {"lines": [], "next": 5, "ended": True})
    platform.answer(f"{path}5", {"lines": [line("the last words")], "next": 8, "ended": False})
    platform.answer(f"{path}8", {"lines": [], "next": 8, "ended": True})
    pauses: list[float] = []
    with Client(platform.url, TOKEN) as client:
        logs.follow(client, "job-1", pause=pauses.append)
    assert capsys.readouterr().out == "[0] late\n[0] the last words\n"
    assert len(pauses) == 2


def test_a_dataset_is_pushed_as_a_snapshot(
    trainmaster: Trainmaster, platform: PlatformStub, tmp_path: Path
) -> None:
    (tmp_path / "data" / "train").mkdir(parents=True)
    (tmp_path / "data" / "train" / "a.py").write_text("a")
    platform.answer("GET me", {"username": "bob", "teams": {"vision": "member"}})
    platform.answer("POST uploads", {"id": "up-1"}, 201)
    platform.answer("PUT uploads/up-1/files/train/a.py", {}, 201)
    platform.answer("POST uploads/up-1/complete", {"manifest": "man-1"}, 201)
    platform.answer("POST datasets/stdlib/snapshots", {"id": "snap-1", "name": "stdlib", "version": 2}, 201)
    told = trainmaster("dataset", "push", "data", "--name", "stdlib", "--purpose", "train")
    assert told.stdout == "snap-1\n"
    assert platform.requests("POST", "datasets")[0].json == {
        "team": "vision",
        "manifest": "man-1",
        "purpose": "train",
    }


def test_who_is_in_several_teams_is_asked_which_one(trainmaster: Trainmaster, platform: PlatformStub) -> None:
    platform.answer("GET me", {**ME, "token_team": None})
    told = trainmaster("register", "bytelm", "--checkpoint", "ckpt-1", code=1).stderr
    assert "You are in nlp, vision" in told


def test_a_model_is_registered_and_deployed(trainmaster: Trainmaster, platform: PlatformStub) -> None:
    platform.answer("GET me", ME)
    version = {
        "id": "mv-1",
        "model": "vision/bytelm",
        "version": 1,
        "state": "ready",
        "bytes": 2048,
        "source": "ckpt-1",
    }
    platform.answer("POST models/bytelm/versions", version, 201)
    platform.answer("GET models", {"results": [version]})
    deployed = {"id": "dep-1", "status": "complete", "progress": 1.0, "workers": 2, "workers_complete": 2}
    planned = [{"strategy": "mesh", "time_seconds": 1.5}, {"strategy": "chain", "time_seconds": 2}]
    estimate = {"estimated_time_seconds": 1.5, "strategy": "mesh", "strategies": planned}
    platform.answer("POST deployments", {**deployed, **estimate}, 201)
    platform.answer("GET deployments", {"results": [deployed]})
    assert trainmaster("register", "bytelm", "--checkpoint", "ckpt-1").stdout == "vision/bytelm version 1\n"
    assert "2 KiB" in trainmaster("models").stdout
    told = trainmaster("deploy", "bytelm", "1", "--nodes", "n1, n2", "--watch")
    assert told.stdout == "dep-1\n"
    assert "It takes about 1.5 s by mesh (chain 2 s)." in told.stderr
    assert "complete  100%  2 of 2 workers complete" in told.stderr
    [asked] = platform.requests("POST", "deployments")
    assert asked.json == {"model_id": "vision/bytelm", "version": 1, "target_workers": ["n1", "n2"]}
    assert "100%" in trainmaster("deployments").stdout


def test_a_plan_compares_the_strategies_and_moves_nothing(
    trainmaster: Trainmaster, platform: PlatformStub
) -> None:
    one = {"store_copies": 1, "cross_rack_copies": 3}
    plan = {
        "model": "vision/bytelm", "version": 1, "strategy": "mesh", "bytes": 5 * 10**11, "workers": 100,
        "rate": 1_250_000_000, "bound_seconds": 400.1, "strategies": [
            {**one, "strategy": "mesh", "time_seconds": 401, "ratio": 1.0022},
            {**one, "strategy": "sequential", "time_seconds": 40_000, "ratio": 99.97, "store_copies": 100},
        ],
    }  # fmt: skip
    platform.answer("POST deployments/plan", plan)
    told = trainmaster("deploy", "vision/bytelm", "1", "--plan", "--nodes", "n1")
    [_, mesh, sequential] = told.stdout.splitlines()
    assert mesh.split() == [
        "mesh",
        "6",
        "min",
        "41",
        "s",
        "1.00",
        "x",
        "1",
        "3",
        "<-",
        "would",
        "be",
        "taken",
    ]
    assert "99.97 x" in sequential
    assert "no strategy could take less than 6 min 40 s. Nothing has been moved." in told.stderr
    [asked] = platform.requests("POST", "deployments")
    assert asked.json["strategy"] == "auto"
    assert (
        json.loads(trainmaster("deploy", "vision/bytelm", "1", "--plan", "--json").stdout)["workers"] == 100
    )


def test_a_model_is_preheated_and_pinned(trainmaster: Trainmaster, platform: PlatformStub) -> None:
    begun = {"id": "dep-2", "status": "init", "preheat": True}
    platform.answer("POST deployments", begun, 201)
    platform.answer("PATCH deployments/dep-2", {**begun, "pinned": True})
    platform.answer("PATCH deployments/dep-2", {**begun, "pinned": False})
    listed = {**begun, "status": "complete", "pinned": True, "workers_evicted": 1, "workers": 2}
    nowhere = {**begun, "id": "dep-1", "status": "evicted", "workers_evicted": 2, "workers": 2}
    platform.answer("GET deployments", {"results": [listed, nowhere]})
    assert trainmaster("preheat", "vision/bytelm", "3", "--strategy", "auto").stdout == "dep-2\n"
    [asked] = platform.requests("POST", "deployments")
    assert (asked.json["preheat"], asked.json["strategy"]) == (True, "auto")
    assert "dep-2 is pinned" in trainmaster("pin", "dep-2").stdout
    assert "not pinned any more" in trainmaster("pin", "dep-2", "--off").stdout
    assert [one.json for one in platform.requests("PATCH")] == [{"pin": True}, {"pin": False}]
    told = trainmaster("deployments").stdout
    assert "complete (preheated, pinned, 1 gave it up)" in told
    assert "evicted (preheated, 2 gave it up)" in told


def test_a_version_is_switched_on_promoted_and_rolled_back(
    trainmaster: Trainmaster, platform: PlatformStub
) -> None:
    platform.answer("GET me", {**ME, "token_team": "vision", "teams": {"vision": "lead"}})
    rollout = {"state": "holding", "nodes": 3, "nodes_active": 1}
    begun = {"id": "dep-2", "status": "init", "model": "vision/bytelm", "version": 2, "rollout": rollout}
    platform.answer("POST deployments", begun, 201)
    words = (
        "--canary",
        "1",
        "--hold",
        "600",
        "--check-every",
        "5",
        "--roll-back-after",
        "3",
        "--health-check",
        "check-model",
        "--hook",
        "reload",
        "--wait-for-all",
    )
    trainmaster("deploy", "vision/bytelm", "2", *words)
    trainmaster("deploy", "vision/bytelm", "2", "--activate")
    trainmaster("deploy", "vision/bytelm", "2")
    full, bare, none = (one.json for one in platform.requests("POST", "deployments"))
    assert full["rollout"] == {
        "canary": "1", "check_every_seconds": 5, "roll_back_after": 3, "hold_seconds": 600,
        "health_check": "check-model", "hook": "reload", "wait_for_all": True,
    }  # fmt: skip
    assert (bare["rollout"], "rollout" in none) == ({}, False)
    platform.answer("POST deployments/dep-2/promote", begun)
    told = trainmaster("promote", "dep-2").stdout
    assert told == "vision/bytelm version 2 (dep-2) is holding; 1 of 3 nodes run it\n"
    older = {**begun, "id": "dep-1", "version": 1, "rollout": {"state": "active", "replaced_by": 2}}
    undone = {**begun, "id": "dep-3", "rollout": {"state": "rolled_back"}}
    platform.answer("GET deployments", {"results": [undone, {"id": "dep-4", "status": "init"}, begun, older]})
    platform.answer(
        "POST deployments/dep-2/rollback", {**begun, "rollout": {**rollout, "state": "rolled_back"}}
    )
    assert "(dep-2) is rolled back" in trainmaster("rollback", "vision/bytelm").stdout
    assert (
        "No version of vision/other was made active" in trainmaster("rollback", "vision/other", code=1).stderr
    )
    listed = trainmaster("deployments").stdout
    assert "rollout rolled back" in listed
    assert "replaced by version 2" in listed


def test_help_names_the_operators_commands_without_loading_them(trainmaster: Trainmaster) -> None:
    told = trainmaster("--help").stdout
    assert "trainmaster up --help" in told
    assert "submit" in told
