"""Colours, progress bars and completion: what a terminal gets and a pipe does not."""

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from tests.sdk.conftest import ME, Trainmaster
from tests.sdk.platform_stub import PlatformStub
from trainmaster.cli import main, references

JOB = {"id": "job-0000000000000001", "name": "toy-8", "team": "vision", "state": "failed"}
RED = "\x1b[31m"
OnTerminal = Callable[..., str]


@pytest.fixture
def on_terminal(trainmaster: Trainmaster, monkeypatch: pytest.MonkeyPatch) -> OnTerminal:
    """What the command prints on a terminal, standard output and standard error together."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)

    def call(*words: str, **environment: str) -> str:
        primary, secondary = pty.openpty()
        command = [
            sys.executable,
            "-c",
            "from trainmaster.cli import main; main(prog_name='trainmaster')",
            *words,
        ]
        streams = {"stdin": secondary, "stdout": secondary, "stderr": secondary}
        with subprocess.Popen(command, env={**os.environ, **environment}, **streams):
            os.close(secondary)
            parts = []
            try:
                while part := os.read(primary, 65536):
                    parts.append(part)
            except OSError:  # Linux: the other end is closed
                pass
        os.close(primary)
        return b"".join(parts).decode()

    return call


def test_a_state_has_its_colour_on_a_terminal_alone(
    on_terminal: OnTerminal, trainmaster: Trainmaster, platform: PlatformStub
) -> None:
    platform.answer("GET training-jobs", {"results": [JOB], "next": None})
    assert f"{RED}failed" in on_terminal("jobs")
    assert "\x1b" not in on_terminal("jobs", "--no-color")
    assert "\x1b" not in on_terminal("--no-color", "jobs")
    assert "\x1b" not in on_terminal("jobs", NO_COLOR="1")
    assert "\x1b" not in trainmaster("jobs").stdout


def test_an_upload_has_a_bar_on_a_terminal_alone(
    on_terminal: OnTerminal, trainmaster: Trainmaster, platform: PlatformStub, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.bin").write_bytes(b"x" * 700_000)
    (tmp_path / "data" / "empty").write_bytes(b"")
    platform.answer("GET me", ME)
    platform.answer("POST uploads", {"id": "up-1"}, 201)
    for name in ("a.bin", "empty"):
        platform.answer(f"PUT uploads/up-1/files/{name}", {}, 201)
    platform.answer("POST uploads/up-1/complete", {"manifest": "man-1"}, 201)
    platform.answer("GET datasets", {"results": []})
    platform.answer("POST datasets/tiny/snapshots", {"id": "ds-1", "name": "tiny", "version": 1}, 201)
    push = ("dataset", "push", "data", "--name", "tiny", "--purpose", "train")
    shown = on_terminal(*push)
    assert "Sending 2 files from data" in shown
    assert "100%" in shown
    assert "%" not in trainmaster(*push).stderr
    sent = [request for request in platform.asked if request.path.endswith("a.bin")]
    assert [len(request.body) for request in sent] == [700_000, 700_000]
    assert sent[0].headers["content-length"] == "700000", "a server may refuse a body of unknown length"


def completed(*words: str, incomplete: str) -> list[str]:
    shell = ShellComplete(main, {}, "trainmaster", "_TRAINMASTER_COMPLETE")
    return [item.value for item in shell.get_completions(list(words), incomplete)]


def test_commands_options_and_jobs_are_completed(trainmaster: Trainmaster, platform: PlatformStub) -> None:
    platform.answer(
        "GET training-jobs", {"results": [JOB, JOB | {"id": "job-2", "name": "toy-9"}, JOB], "next": None}
    )
    assert completed(incomplete="que") == ["queue"]
    assert "up" in completed(incomplete="")
    assert completed("show", incomplete="--sp") == ["--spec"]
    assert completed("show", incomplete="toy") == ["toy-8", "toy-9"]
    assert completed("logs", incomplete="job-000") == ["job-0000000000000001"]
    assert platform.asked[0].path.startswith("training-jobs?search=toy")


def test_a_node_is_completed_by_its_hostname(trainmaster: Trainmaster, platform: PlatformStub) -> None:
    platform.answer("GET nodes", [{"id": "node-1", "hostname": "gpu-7", "state": "ready"}])
    assert completed("nodes", "drain", incomplete="g") == ["gpu-7"]


def test_completion_is_silent_when_the_platform_cannot_be_asked(
    trainmaster: Trainmaster, platform: PlatformStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert completed("show", incomplete="toy") == [], "the platform refuses"
    monkeypatch.setenv("TRAINMASTER_URL", "http://127.0.0.1:9")
    assert completed("show", incomplete="toy") == [], "nobody answers"
    monkeypatch.setenv("TRAINMASTER_URL", "")
    assert completed("show", incomplete="toy") == [], "nobody has logged in"
    assert references.COMPLETION_TIMEOUT.read == 1.0


@pytest.mark.parametrize(
    ("shell", "words"),
    [("bash", "complete -o"), ("zsh", "#compdef trainmaster"), ("fish", "complete --no-files")],
)
def test_the_script_of_each_shell_is_printed(trainmaster: Trainmaster, shell: str, words: str) -> None:
    assert words in trainmaster("completion", shell).stdout


def test_the_version_is_that_of_the_package(trainmaster: Trainmaster) -> None:
    assert trainmaster("--version").stdout.startswith("trainmaster 0.")
