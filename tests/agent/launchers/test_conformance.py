"""What every launcher promises (agent/launchers/contract.py), on the process launcher and on a stand-in engine."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil

from agent.launchers import processes
from agent.launchers.contract import Alive, Ended, Launcher, NotStarted
from agent.work_folder import WorkFolder
from tests.agent.launchers.conftest import order, until_ended, until_logged

WAIT = "while [ ! -e $TRAINMASTER_DIR/go-on ]; do sleep 0.05; done"


def test_nothing_is_known_of_what_was_never_started(launcher: Launcher, folder: WorkFolder) -> None:
    assert launcher.poll(folder) == NotStarted()
    assert launcher.adopt(folder) == NotStarted()
    launcher.stop(folder, 1)
    assert not folder.stop_file.exists()


def test_runs_a_command_in_its_folder_and_tells_how_it_ended(launcher: Launcher, folder: WorkFolder) -> None:
    launcher.start(order(launcher, folder, "echo out; echo err >&2; touch here; exit 7"))
    ended = until_ended(launcher, folder)
    assert (ended.exit_code, ended.stopped, ended.vanished) == (7, False, False)
    assert folder.rank_log(0).read_text() == "out\nerr\n"
    assert (folder.work / "here").exists()


def test_a_mounted_folder_is_read_at_its_own_place(
    launcher: Launcher, folder: WorkFolder, tmp_path: Path
) -> None:
    shared = tmp_path / "shared folder"
    shared.mkdir()
    (shared / "a.txt").write_text("of all nodes")
    (folder.data / "a.txt").symlink_to(shared / "a.txt")
    launcher.start(replace(order(launcher, folder, "cat $TRAINMASTER_DIR/data/a.txt"), mounted=shared))
    assert until_ended(launcher, folder).exit_code == 0
    assert folder.rank_log(0).read_text() == "of all nodes"


def test_a_second_start_changes_nothing(new_launcher: Callable[[], Launcher], folder: WorkFolder) -> None:
    first, second = new_launcher(), new_launcher()
    once = order(first, folder, f"echo started; {WAIT}")
    first.start(once)
    until_logged(folder, "started")
    first.start(once)
    second.start(once)
    (folder.path / "go-on").touch()
    until_ended(second, folder)
    second.start(once)
    new_launcher().start(once)
    assert isinstance(second.poll(folder), Ended)
    assert folder.rank_log(0).read_text() == "started\n"


def test_a_new_agent_adopts_what_runs(new_launcher: Callable[[], Launcher], folder: WorkFolder) -> None:
    first = new_launcher()
    first.start(order(first, folder, f"echo started; {WAIT}; exit 4"))
    until_logged(folder, "started")
    second = new_launcher()
    assert isinstance(second.adopt(folder), Alive)
    (folder.path / "go-on").touch()
    assert until_ended(second, folder).exit_code == 4


def test_an_end_that_nobody_saw_is_known_afterwards(
    new_launcher: Callable[[], Launcher], folder: WorkFolder
) -> None:
    first = new_launcher()
    first.start(order(first, folder, "echo started; exit 5"))
    until_logged(folder, "started")
    deadline = time.monotonic() + 10
    while processes.marked(folder.attempt_id) and time.monotonic() < deadline:
        time.sleep(0.02)
    second = new_launcher()
    second.adopt(folder)
    assert until_ended(second, folder).exit_code == 5


def test_a_script_that_hears_the_stop_ends_as_it_likes(launcher: Launcher, folder: WorkFolder) -> None:
    script = "trap 'ls $TRAINMASTER_DIR/stop >/dev/null && echo saved; exit 0' TERM; echo ready; "
    launcher.start(order(launcher, folder, script + "while :; do sleep 0.05; done"))
    until_logged(folder, "ready")
    launcher.stop(folder, 20)
    ended = until_ended(launcher, folder)
    assert (ended.exit_code, ended.stopped, ended.killed_after_grace) == (0, True, False)
    assert "saved" in folder.rank_log(0).read_text()


def test_who_ignores_the_stop_is_killed_with_all_below(launcher: Launcher, folder: WorkFolder) -> None:
    stubborn = "trap '' TERM HUP INT; echo daemon; while :; do sleep 0.05; done"
    script = f"trap '' TERM; setsid sh -c \"{stubborn}\" & (setsid setsid sleep 300 &) ; {stubborn}"
    launcher.start(order(launcher, folder, script))
    until_logged(folder, "daemon\ndaemon")
    launcher.stop(folder, 1)
    ended = until_ended(launcher, folder)
    assert (ended.exit_code, ended.stopped, ended.killed_after_grace) == (137, True, True)
    assert processes.marked(folder.attempt_id) == []


def test_a_daemon_left_behind_does_not_stay(launcher: Launcher, folder: WorkFolder) -> None:
    launcher.start(
        order(launcher, folder, "setsid sh -c 'trap \"\" TERM HUP; sleep 300' & sleep 0.2; exit 0")
    )
    assert until_ended(launcher, folder).exit_code == 0
    assert processes.marked(folder.attempt_id) == []


def test_a_stop_of_what_has_ended_changes_nothing(launcher: Launcher, folder: WorkFolder) -> None:
    launcher.start(order(launcher, folder, "exit 0"))
    ended = until_ended(launcher, folder)
    launcher.stop(folder, 1)
    assert launcher.poll(folder) == ended


def test_secrets_reach_the_script_and_nothing_else(
    new_launcher: Callable[[], Launcher], folder: WorkFolder
) -> None:
    launcher = new_launcher()
    value = "s3cr3t value $HOME 'quoted'\nsecond line"
    script = f'printf %s "$MY_SECRET" | sha256sum; echo ready; {WAIT}'
    launcher.start(order(launcher, folder, script, MY_SECRET=value))
    until_logged(folder, "ready")
    for process in psutil.process_iter():
        try:
            assert not any("s3cr3t" in word for word in process.cmdline())
        except psutil.Error:
            continue
    for path in folder.path.rglob("*"):
        assert path.is_dir() or b"s3cr3t" not in path.read_bytes(), path
    assert new_launcher().secrets(folder, ("MY_SECRET", "OTHER")) == {"MY_SECRET": value}
    (folder.path / "go-on").touch()
    until_ended(launcher, folder)
    assert hashlib.sha256(value.encode()).hexdigest() in folder.rank_log(0).read_text()


def test_a_program_that_does_not_exist_is_an_end_with_127(launcher: Launcher, folder: WorkFolder) -> None:
    launcher.start(replace(order(launcher, folder, ""), argv=("no-such-program", "--flag")))
    ended = until_ended(launcher, folder)
    assert ended.exit_code == 127
    if launcher.name == "process":
        assert ended.trouble.startswith(
            '"no-such-program" could not be started: this node has no such program'
        )


def test_forgetting_leaves_no_trace_outside_the_folder(
    new_launcher: Callable[[], Launcher], folder: WorkFolder
) -> None:
    launcher = new_launcher()
    launcher.start(order(launcher, folder, "exit 0"))
    until_ended(launcher, folder)
    launcher.forget(folder)
    launcher.forget(folder)
    folder.delete()
    assert new_launcher().poll(folder) == NotStarted()
