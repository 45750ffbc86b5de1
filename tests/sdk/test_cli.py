"""Commands against a platform that is a real HTTP server."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.sdk.conftest import ME, Trainmaster
from tests.sdk.platform_stub import TOKEN, PlatformStub
from trainmaster.cli import logs
from trainmaster.client import Client

JOB = {"id": "job-1", "name": "bytelm", "team": "vision", "state": "pending", "url": "http://p/jobs/job-1/"}


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


def test_a_dry_run_sends_no_code_and_says_what_the_job_would_meet(
    trainmaster: Trainmaster, platform: PlatformStub, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text("print(1)")
    (tmp_path / "job.yaml").write_text(
        "name: x\nteam: vision\ncode: .\ncommand: python train.py\ngpu_type: cpu\n"
    )
    waits = {"outcome": "waits", "why": "none is free", "position": 3, "should_start": "in 4 min to 20 min"}
    platform.answer("POST training-jobs/dry-run", {**waits, "changes": ["2 slots of cpu instead of 4"]})
    platform.answer("POST training-jobs/dry-run", {"outcome": "starts"})
    platform.answer("POST training-jobs/dry-run", {"outcome": "refused", "why": "would exceed quota: 12/8"})
    told = trainmaster("submit", "job.yaml", "--dry-run").stdout
    assert told == (
        "It would wait at place 3 of the queue: none is free\nIt should start in 4 min to 20 min.\n"
        "Each alone would start it now:\n  2 slots of cpu instead of 4\n"
    )
    assert trainmaster("submit", "job.yaml", "--dry-run").stdout == "It would start at once.\n"
    told = trainmaster("submit", "job.yaml", "--dry-run", code=1)
    assert told.stderr == "Error: It would be refused: would exceed quota: 12/8\n"
    assert {asked.json["code"] for asked in platform.requests("POST", "training-jobs/dry-run")} == {""}


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
    waiting: dict[str, Any] = {
        "code": "no_free_slots", "sentence": "needs 4 slots, 2 are free", "position": 3,
    }  # fmt: skip
    platform.answer(
        "GET training-jobs/job-1", {**JOB, "waiting": waiting, "spec": {"name": "bytelm", "num_gpus": 4}}
    )
    told = trainmaster("show", "job-1").stdout
    assert "needs 4 slots, 2 are free (number 3 in the queue)" in told
    waiting["numbers"] = {"reserved_start_ms": 1}
    platform.answer(
        "GET training-jobs/job-1", {**JOB, "waiting": waiting, "spec": {"name": "bytelm", "num_gpus": 4}}
    )
    assert "(number 3 in the queue, its place is kept)" in trainmaster("show", "job-1").stdout
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


def test_help_names_the_operators_commands_without_loading_them(trainmaster: Trainmaster) -> None:
    told = trainmaster("--help").stdout
    assert "trainmaster up --help" in told
    assert "submit" in told
