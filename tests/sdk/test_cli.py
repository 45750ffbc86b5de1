"""Commands against a platform that is a real HTTP server."""

import json
import stat
import time
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from tests.sdk.conftest import ME, Trainmaster
from tests.sdk.platform_stub import TOKEN, PlatformStub
from trainmaster.cli import logs
from trainmaster.cli.group import OPERATORS
from trainmaster.client import Client

LOGGED_MS = 1_700_000_000_000
JOB_ID = "job-0000000000000001"
JOB = {
    "id": JOB_ID,
    "name": "bytelm",
    "team": "vision",
    "state": "pending",
    "url": f"http://p/jobs/{JOB_ID}/",
}


def test_login_tries_the_token_and_keeps_it_for_this_user_only(
    trainmaster: Trainmaster, platform: PlatformStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRAINMASTER_URL")
    monkeypatch.delenv("TRAINMASTER_TOKEN")
    platform.answer("GET me", ME)
    platform.answer("GET nodes", [])
    assert "No platform is known" in trainmaster("nodes", code=1).stderr
    assert "Log in" not in trainmaster("login", platform.url, "--token-stdin", typed="wrong\n", code=1).stdout
    result = trainmaster("login", f"{platform.url}/", "--token-stdin", typed=f"{TOKEN}\n")
    assert result.stdout == f"Logged in to {platform.url} as alice, for team vision.\n"
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


def test_a_job_that_hangs_says_so(trainmaster: Trainmaster, platform: PlatformStub) -> None:
    stuck = "no progress for 6 min after step 40; its own steps allow 5 min. Rank 1 is stuck in read_batch"
    platform.answer(f"GET training-jobs/{JOB_ID}", {**JOB, "state": "running", "hang": stuck})
    shown = trainmaster("show", JOB_ID).stdout
    assert stuck in shown
    assert "trainmaster jobs restart" in shown


def test_nodes_say_why_a_slot_or_a_gpu_is_not_in_service(
    trainmaster: Trainmaster, platform: PlatformStub
) -> None:
    dead = "GPU 3 does not answer and is not offered: GPU is lost."
    platform.answer(
        "GET nodes",
        [
            {"id": "node-1", "hostname": "alpha", "state": "ready", "slots_out_of_service": {"1": "XID 79"}},
            {"id": "node-2", "hostname": "beta", "state": "ready", "hardware_faults": [dead]},
        ],
    )
    table = trainmaster("nodes").stdout.splitlines()
    assert table[1].endswith("slot 1: XID 79")
    assert table[2].endswith("GPU is lost")
    for node in ("alpha", "beta"):
        platform.answer(f"GET nodes/{node}/health", {"results": []})
    assert trainmaster("nodes", "health", "alpha").stderr == "Nothing was found wrong with its devices.\n"
    said = trainmaster("nodes", "health", "beta")
    assert (said.stdout, said.stderr) == (f"{dead}\n", "Nothing else was found wrong with its devices.\n")


def test_the_list_of_checkpoints_says_from_what_the_interval_follows(
    trainmaster: Trainmaster, platform: PlatformStub
) -> None:
    interval = {
        "sentence": "The platform sets 34.6 s: Daly's optimum.", "waste": 0.0002, "mtbf_ms": 85_620_000,
        "formula": "sqrt(2CM) - C", "inputs": {"blocking_ms": 7, "stored_ms": 496, "restart_ms": 10_800},
    }  # fmt: skip
    platform.answer(f"GET training-jobs/{JOB_ID}", JOB)
    platform.answer(f"GET training-jobs/{JOB_ID}/checkpoints", {"results": [], "interval": interval})
    told = trainmaster("checkpoints", "list", JOB_ID).stdout.splitlines()
    assert told == [
        "The platform sets 34.6 s: Daly's optimum. Expected loss: under 0.1% of the time.",
        "sqrt(2CM) - C",
        "blocking C 7 ms, in the store after 496 ms, between failures M 23 h 47 min, restart 10.8 s",
    ]


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
    result = trainmaster("submit", "job.yaml", "--set", "hyperparameters.lr=3e-4", "--key", "again")
    assert result.stdout == f"{JOB_ID}\nhttp://p/jobs/{JOB_ID}/\n"
    assert "2 of 4 slots are free" in result.stderr
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
    result = trainmaster("submit", "job.yaml", code=1).stderr
    assert result.startswith("Error: The job description is not valid.\n")
    assert "\n  num_gpus is 0; it must be a whole number from 1 to 10000\n" in result
    assert "\n  comand is not a field; did you mean command?\n" in result
    assert platform.asked == []


def test_each_mistake_of_a_sweep_file_is_told_once(
    trainmaster: Trainmaster, platform: PlatformStub, tmp_path: Path
) -> None:
    (tmp_path / "sweep.yaml").write_text("name: x\nteam: vision\njob: {name: x, command: python train.py}\n")
    sentence = "job.hyperparameters.lr is fixed and also in the search space; remove one of the two"
    problems = [{"field": "job.hyperparameters.lr", "sentence": sentence}]
    detail = f"The sweep is not valid: {sentence}"
    platform.refuse("POST sweeps", 422, "sweep_invalid", detail, problems=problems)
    said = trainmaster("sweep", "start", "sweep.yaml", code=1).stderr
    assert said == f"Error: The sweep is not valid.\n  {sentence}\n"


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
    result = trainmaster("submit", "job.yaml", "--dry-run").stdout
    assert result == (
        "It would wait at position 3 of the queue: none is free\nExpected start: in 4 min to 20 min.\n"
        "Any one of these changes would start it now:\n  2 slots of cpu instead of 4\n"
    )
    assert trainmaster("submit", "job.yaml", "--dry-run").stdout == "It would start at once.\n"
    result = trainmaster("submit", "job.yaml", "--dry-run", code=1)
    assert result.stderr == "Error: It would be refused: would exceed quota: 12/8\n"
    assert {asked.json["code"] for asked in platform.requests("POST", "training-jobs/dry-run")} == {""}


def test_a_refusal_of_the_platform_is_one_sentence(
    trainmaster: Trainmaster, platform: PlatformStub, tmp_path: Path
) -> None:
    (tmp_path / "job.yaml").write_text("name: x\nteam: vision\ncommand: python train.py\ngpu_type: cpu\n")
    platform.refuse("POST training-jobs", 409, "quota_exceeded", "would exceed quota: 12/8 slots of cpu")
    assert (
        trainmaster("submit", "job.yaml", code=1).stderr == "Error: would exceed quota: 12/8 slots of cpu\n"
    )


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
        JOB_ID,
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
        f"GET training-jobs/{JOB_ID}", {**JOB, "waiting": waiting, "spec": {"name": "bytelm", "num_gpus": 4}}
    )
    result = trainmaster("show", JOB_ID).stdout
    assert "needs 4 slots, 2 are free (position 3 in the queue)" in result
    waiting["numbers"] = {"reserved_start_ms": 1}
    platform.answer(
        f"GET training-jobs/{JOB_ID}", {**JOB, "waiting": waiting, "spec": {"name": "bytelm", "num_gpus": 4}}
    )
    assert "(position 3 in the queue, nodes are reserved for it)" in trainmaster("show", JOB_ID).stdout
    assert trainmaster("show", JOB_ID, "--spec").stdout == "name: bytelm\nnum_gpus: 4\n"
    assert "layout" not in result


def test_show_tells_how_busy_it_is_and_how_long_it_takes(
    trainmaster: Trainmaster, platform: PlatformStub
) -> None:
    progress = {"utilisation": 0.87, "remaining_ms": 5_400_000, "latest_checkpoint_ms": 1}
    running = {**JOB, "state": "running", "mfu": 0.418, "latest_checkpoint": "ckpt-1", "progress": progress}
    platform.answer(f"GET training-jobs/{JOB_ID}", running)
    shown = " ".join(trainmaster("show", JOB_ID).stdout.split())
    assert "utilisation 87 % MFU 42 %" in shown
    assert "time left about 1 h 30 min at this pace" in shown
    assert "checkpoint ckpt-1, " in shown


def test_show_names_the_layout(trainmaster: Trainmaster, platform: PlatformStub) -> None:
    laid_out = {**JOB, "num_gpus": 8, "spec": {"num_gpus": 8, "parallel": {"tp": 2, "pp": 2}}}
    platform.answer(f"GET training-jobs/{JOB_ID}", laid_out)
    assert "pp 2 x dp 2 x tp 2" in trainmaster("show", JOB_ID).stdout


def test_jobs_and_deployments_are_cancelled_by_their_id(
    trainmaster: Trainmaster, platform: PlatformStub
) -> None:
    platform.answer(
        f"POST training-jobs/{JOB_ID}/cancel", {**JOB, "state": "running", "stopping": "cancel"}, 202
    )
    platform.answer("DELETE deployments/dep-1", {"id": "dep-1", "status": "cancelled"})
    assert trainmaster("cancel", JOB_ID).stdout == f"{JOB_ID} (bytelm) is running and stops now.\n"
    assert trainmaster("cancel", "dep-1").stdout == "dep-1 is cancelled.\n"


def line(text: str, rank: int = 0, attempt: int = 1) -> dict[str, object]:
    return {"text": text, "rank": rank, "attempt": attempt, "offset": 0, "at_ms": LOGGED_MS}


def test_logs_are_printed_to_their_end(trainmaster: Trainmaster, platform: PlatformStub) -> None:
    path = f"GET training-jobs/{JOB_ID}/logs?after="
    platform.answer(f"{path}0", {"lines": [line("a"), line("b", rank=1)], "next": 7, "ended": False})
    platform.answer(f"{path}7", {"lines": [line("c", 1_000_001), line("d", 0, 2)], "next": 9, "ended": False})
    platform.answer(f"{path}9", {"lines": [], "next": 9, "ended": False})
    assert trainmaster("logs", JOB_ID, "--plain").stdout == "a\nb\nc\nd\n"
    at = time.strftime("%H:%M:%S", time.localtime(LOGGED_MS / 1000))
    printed = trainmaster("logs", JOB_ID).stdout
    assert printed == f"{at} [0] a\n{at} [1] b\n{at} [node 1] c\n{at} [2.0] d\n"


def test_following_goes_on_until_no_more_lines_can_come(
    platform: PlatformStub, capsys: pytest.CaptureFixture[str]
) -> None:
    platform.answer(f"GET training-jobs/{JOB_ID}", JOB)
    path = f"GET training-jobs/{JOB_ID}/logs?after="
    platform.answer(f"{path}0", {"lines": [], "next": 0, "ended": False})
    platform.answer(f"{path}0", {"lines": [line("late")], "next": 5, "ended": False})
    platform.answer(f"{path}5", {"lines": [], "next": 5, "ended": True})
    platform.answer(f"{path}5", {"lines": [line("the last words")], "next": 8, "ended": False})
    platform.answer(f"{path}8", {"lines": [], "next": 8, "ended": True})
    pauses: list[float] = []
    with Client(platform.url, TOKEN) as client:
        logs.follow(client, JOB_ID, pause=pauses.append)
    assert [line.partition(" ")[2] for line in capsys.readouterr().out.splitlines()] == [
        "[0] late", "[0] the last words",
    ]  # fmt: skip
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
    platform.answer("GET datasets", {"results": []})
    platform.answer("POST datasets/stdlib/snapshots", {"id": "snap-1", "name": "stdlib", "version": 2}, 201)
    result = trainmaster("dataset", "push", "data", "--name", "stdlib", "--purpose", "train")
    assert result.stdout == "snap-1\n"
    assert platform.requests("POST", "datasets")[0].json == {
        "team": "vision",
        "manifest": "man-1",
        "purpose": "train",
        "projects": [],
    }


def test_who_is_in_several_teams_is_asked_which_one(trainmaster: Trainmaster, platform: PlatformStub) -> None:
    platform.answer("GET me", {**ME, "token_team": None})
    result = trainmaster("register", "bytelm", "--checkpoint", "ckpt-1", code=1).stderr
    assert "You are in nlp, vision" in result


def test_help_names_the_operators_commands_without_loading_them(trainmaster: Trainmaster) -> None:
    printed = trainmaster("--help").stdout
    assert "up            Start the whole platform on this machine." in printed
    assert [line[:-1] for line in printed.splitlines() if line.endswith(":") and not line.startswith(" ")] == [
        "Options", "Jobs", "Experiments", "Data and models", "Cluster", "Account", "Operators",
    ]  # fmt: skip
    assert set(OPERATORS) == {entry.name for entry in entry_points(group="trainmaster.commands")}


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("TRAINMASTER_TOKEN", "t\u00f6k\u00e9n", "The token has characters that no token has"),
        ("TRAINMASTER_TOKEN", "two\nlines", "The token has characters that no token has"),
        ("TRAINMASTER_URL", "http://[::1", "http://[::1 is not an address of a platform"),
        ("TRAINMASTER_URL", "nowhere", "nowhere cannot be reached"),
        ("TRAINMASTER_URL", "http://127.0.0.1:9", "http://127.0.0.1:9 cannot be reached"),
    ],
)
def test_a_wrong_address_or_token_is_one_sentence(
    trainmaster: Trainmaster, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, words: str
) -> None:
    monkeypatch.setenv(variable, value)
    printed = trainmaster("jobs", code=1).stderr
    assert printed.startswith(f"Error: {words}")
    assert printed.count("\n") == 1
    assert not printed.endswith("..\n")


def test_a_login_that_cannot_be_stored_is_one_sentence(
    trainmaster: Trainmaster, platform: PlatformStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform.answer("GET me", ME)
    (tmp_path / "file").touch()
    (tmp_path / "file").chmod(0o600)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    printed = trainmaster("login", platform.url, "--token-stdin", typed=f"{TOKEN}\n", code=1).stderr
    assert printed.startswith(f"Error: {tmp_path}/file/trainmaster")
    assert printed.count("\n") == 1


def test_what_a_rule_would_delete_is_seen_first(trainmaster: Trainmaster, platform: PlatformStub) -> None:
    stays = {"checkpoint": "ckpt-2", "step": 20, "bytes": 2048, "stays": ["last", "best"], "goes": ""}
    goes = {"checkpoint": "ckpt-1", "step": 10, "bytes": 1024, "stays": [], "goes": "older than 2 d"}
    sums = {"job_bytes": 3072, "team_bytes": 4096}
    platform.answer(f"GET training-jobs/{JOB_ID}/retention", {"results": [stays], **sums, "deleted_bytes": 0})
    other = {"results": [stays, goes], **sums, "deleted_bytes": 1024}
    platform.answer(f"POST training-jobs/{JOB_ID}/retention", other)
    assert "stays: last, best" in trainmaster("checkpoints", "retention", JOB_ID).stdout
    rule = ("--keep-last", "1", "--best", "1", "--metric", "loss", "--max-age-days", "2")
    shown = trainmaster("checkpoints", "retention", JOB_ID, *rule).stdout
    assert "goes: older than 2 d" in shown
    assert "1 KiB of 3 KiB of this job go" in shown
    [asked] = platform.requests("POST")
    assert asked.json == {"keep_last": 1, "best": 1, "metric": "loss", "max_age_days": 2.0}
