"""Where one `trainmaster up` keeps what it needs next time, and how two of them stay apart."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from webapp.operations import state_folder, supervisor
from webapp.operations.state_folder import StateFolder, StateFolderError, recorded_process

TETHER = Path(state_folder.__file__).with_name("tether.py")


@pytest.fixture
def folder(tmp_path: Path) -> StateFolder:
    folder = StateFolder(tmp_path / "var")
    folder.claim()
    return folder


def another(
    folder: StateFolder, agents: int = 4, web: int = 0, preferred: int = state_folder.PREFERRED_WEB_PORT
) -> "subprocess.CompletedProcess[str]":
    """What a second process finds: locks and ports only work between processes."""
    script = (
        "import json, sys; from pathlib import Path; from dataclasses import asdict\n"
        "from webapp.operations import state_folder; from webapp.operations.state_folder import StateFolder\n"
        f"state_folder.PREFERRED_WEB_PORT = {preferred}\n"
        f"folder = StateFolder(Path({str(folder.path)!r})); folder.claim()\n"
        f"print(json.dumps(asdict(folder.ports({agents}, {web}))))"
    )
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)


def test_the_second_in_the_same_folder_is_refused_with_the_pid_of_the_first(folder: StateFolder) -> None:
    done = another(folder)
    assert done.returncode == 1
    assert f"is already running (pid {os.getpid()})" in done.stderr


def test_two_in_two_folders_share_no_port(folder: StateFolder, tmp_path: Path) -> None:
    first = folder.ports(agents=16, web=0)
    second = json.loads(another(StateFolder(tmp_path / "other"), agents=16).stdout)
    taken = set(first.all()) | {first.block}
    assert not taken & set(range(second["block"], second["block"] + state_folder.BLOCK))


def test_the_preferred_web_port_is_given_once_although_nobody_listens_there_yet(
    folder: StateFolder, tmp_path: Path
) -> None:
    first = folder.ports(agents=1, web=0).web
    assert json.loads(another(StateFolder(tmp_path / "other")).stdout)["web"] != first


def test_the_ports_of_one_folder_are_all_different(folder: StateFolder) -> None:
    ports = folder.ports(agents=state_folder.MOST_AGENTS, web=0)
    everything = [ports.block, ports.web, *ports.all()]
    assert len(everything) == len(set(everything))
    assert max(ports.all()) < ports.block + state_folder.BLOCK


def test_a_restart_takes_the_same_ports(folder: StateFolder, tmp_path: Path) -> None:
    """The preferred one aside, which any platform on this machine may take or leave meanwhile."""
    other = StateFolder(tmp_path / "other")
    assert another(other, preferred=0).stdout == another(other, preferred=0).stdout != ""


def test_training_that_runs_on_does_not_move_the_platform_to_other_ports(
    folder: StateFolder, tmp_path: Path
) -> None:
    other = StateFolder(tmp_path / "other")
    first = json.loads(another(other, preferred=0).stdout)
    with socket.socket() as rendezvous:
        rendezvous.bind(("127.0.0.1", first["rendezvous"][0][0]))
        rendezvous.listen(1)
        assert json.loads(another(other, preferred=0).stdout) == first


def test_a_web_port_that_was_asked_for_and_is_taken_is_an_error(folder: StateFolder) -> None:
    with socket.socket() as somebody:
        somebody.bind(("127.0.0.1", 0))
        somebody.listen()
        port = somebody.getsockname()[1]
        with pytest.raises(StateFolderError, match=f"Port {port} is taken"):
            folder.ports(agents=1, web=port)


def test_secrets_are_made_once_and_for_the_owner_only(folder: StateFolder) -> None:
    first = folder.secrets()
    assert folder.secrets() == first
    assert stat.S_IMODE((folder.path / "secrets.env").stat().st_mode) == 0o600


def test_a_secret_that_a_newer_version_needs_is_added_beside_the_old_ones(folder: StateFolder) -> None:
    first = folder.secrets()
    state_folder.write_environment(folder.path / "secrets.env", {"VALKEY_PASSWORD": first["VALKEY_PASSWORD"]})
    again = folder.secrets()
    assert again["VALKEY_PASSWORD"] == first["VALKEY_PASSWORD"]
    assert again.keys() == first.keys()


@pytest.fixture
def left_behind(folder: StateFolder) -> Iterator["subprocess.Popen[bytes]"]:
    """A child of an earlier `up` that ignores the polite signal."""
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
    tether = [sys.executable, str(TETHER), "--pid-file", str(folder.run / "worker.pid"), "--"]
    process = subprocess.Popen(
        [*tether, sys.executable, "-c", deaf], stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None
    process.stdout.readline()  # it is deaf now
    yield process
    process.kill()
    process.wait()


def test_what_a_killed_platform_left_behind_is_ended(
    folder: StateFolder, left_behind: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_folder, "POLITE_SECONDS", 0.2)
    assert folder.stop_leftovers() == ["worker"]
    assert left_behind.wait(5) == -signal.SIGKILL
    assert not list(folder.run.glob("*.pid"))


def test_a_pid_that_was_given_to_another_program_is_left_alone(folder: StateFolder) -> None:
    (folder.run / "web.pid").write_text(f"{os.getpid()} {psutil.Process().create_time() - 3600}\n")
    assert folder.stop_leftovers() == []


@pytest.mark.parametrize("content", ["", "nonsense", "999999999 1.0"])
def test_a_pid_file_without_a_process_names_nobody(tmp_path: Path, content: str) -> None:
    (tmp_path / "x.pid").write_text(content)
    assert recorded_process(tmp_path / "x.pid") is None


def test_a_child_dies_when_its_parent_is_killed(tmp_path: Path) -> None:
    pid_file = tmp_path / "child.pid"
    tether = [sys.executable, str(TETHER), "--pid-file", str(pid_file), "--", sys.executable, "-c"]
    child = "import time; print(flush=True); time.sleep(600)"
    script = (
        "import subprocess, time\n"
        f"child = subprocess.Popen({[*tether, child]!r}, stdout=subprocess.PIPE)\n"
        "child.stdout.readline(); print(flush=True); time.sleep(600)"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    parent.stdout.readline()
    assert recorded_process(pid_file) is not None
    parent.kill()
    parent.wait()
    assert state_folder.wait_until_gone([pid_file], seconds=10)


def test_only_its_owner_reads_what_the_folder_holds(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "var")
    (tmp_path / "var" / "store").mkdir(parents=True, mode=0o755)
    folder.claim()
    modes = {
        path.name: path.stat().st_mode & 0o777
        for path in (folder.store, folder.logs, folder.run, folder.hooks)
    }
    assert set(modes.values()) == {0o700}
    assert folder.path.stat().st_mode & 0o066 == 0


def test_a_log_that_grew_long_makes_room_for_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "LOG_BYTES", 100)
    printer = supervisor.LogPrinter(tmp_path, quiet=True, announcer="watch")
    for number in range(30):
        printer._keep("web", f"line {number:03}\n".encode())
    kept = (tmp_path / "web.log.1").read_text() + (tmp_path / "web.log").read_text()
    assert kept.endswith("line 029\n")
    assert len(kept) <= 220
