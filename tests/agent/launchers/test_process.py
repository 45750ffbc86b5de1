"""What only the process launcher can be asked: its shim, its limits."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from agent.launchers import limits, processes
from agent.launchers.contract import Alive
from agent.launchers.process import ProcessLauncher
from agent.work_folder import WorkFolder, WorkFolders
from tests.agent.launchers.conftest import order, until_ended, until_logged


@pytest.fixture
def launcher() -> ProcessLauncher:
    return ProcessLauncher()


def taken(folder: WorkFolder) -> dict[str, int]:
    return dict(json.loads(folder.process_file.read_text()))


def test_what_a_killed_shim_left_behind_is_ended_by_the_next_look(
    launcher: ProcessLauncher, folder: WorkFolder
) -> None:
    launcher.start(order(launcher, folder, "setsid sh -c 'echo daemon; sleep 300' & echo main; sleep 300"))
    until_logged(folder, "daemon")
    until_logged(folder, "main")
    os.kill(taken(folder)["pid"], signal.SIGKILL)
    ended = until_ended(ProcessLauncher(), folder)
    assert (ended.exit_code, ended.vanished) == (137, True)
    assert "killed from outside" in ended.trouble
    assert processes.marked(folder.attempt_id) == []


def test_its_processes_have_a_session_of_their_own(launcher: ProcessLauncher, folder: WorkFolder) -> None:
    launcher.start(order(launcher, folder, "echo here; sleep 300"))
    until_logged(folder, "here")
    status = launcher.poll(folder)
    assert isinstance(status, Alive)
    assert os.getsid(status.pid) == status.pid != os.getsid(0)
    (command,) = psutil.Process(status.pid).children()
    assert os.getpgid(command.pid) == command.pid
    launcher.stop(folder, 1)
    until_ended(launcher, folder)


def test_a_second_shorter_grace_counts(launcher: ProcessLauncher, folder: WorkFolder) -> None:
    launcher.start(order(launcher, folder, "trap '' TERM; echo here; while :; do sleep 0.1; done"))
    until_logged(folder, "here")
    launcher.stop(folder, 600)
    launcher.stop(folder, 0)
    launcher.stop(folder, 600)
    assert until_ended(launcher, folder, seconds=15).killed_after_grace


def test_sigterm_from_somebody_else_is_a_stop_too(launcher: ProcessLauncher, folder: WorkFolder) -> None:
    launcher.start(
        order(launcher, folder, "trap 'echo bye; exit 0' TERM; echo here; while :; do sleep 0.1; done")
    )
    until_logged(folder, "here")
    os.kill(taken(folder)["pid"], signal.SIGTERM)
    ended = until_ended(launcher, folder)
    assert (ended.exit_code, ended.stopped) == (0, True)
    assert folder.stop_file.exists()


def test_two_shims_of_one_attempt_run_its_command_once(launcher: ProcessLauncher, folder: WorkFolder) -> None:
    """As when an agent dies between starting a shim and hearing of it, and the next one starts another."""
    once = order(launcher, folder, "echo started; sleep 0.3")
    launcher.start(once)
    other = ProcessLauncher()
    while not isinstance(other.poll(folder), Alive):
        other.start(once)
    until_ended(launcher, folder)
    time.sleep(0.2)
    assert folder.rank_log(0).read_text() == "started\n"


def test_who_uses_more_memory_than_allowed_is_ended(launcher: ProcessLauncher, folder: WorkFolder) -> None:
    script = "import time; held = bytearray(200 << 20); print('held', flush=True); time.sleep(300)"
    eater = replace(
        order(launcher, folder, ""), argv=("python3", "-c", script), memory_bytes=100 << 20, cpus=1
    )
    launcher.start(eater)
    ended = until_ended(launcher, folder)
    assert (ended.exit_code, ended.memory_limit_bytes) == (137, 100 << 20)
    assert "memory 100 MiB held by" in folder.launcher_log.read_text()


def test_memory_within_the_limit_is_left_alone(launcher: ProcessLauncher, folder: WorkFolder) -> None:
    modest = replace(
        order(launcher, folder, ""),
        argv=("python3", "-c", "import time; held = bytearray(50 << 20); time.sleep(1.5)"),
        memory_bytes=200 << 20,
    )
    launcher.start(modest)
    assert until_ended(launcher, folder).exit_code == 0


def test_a_restarted_machine_is_not_mistaken_for_a_running_attempt(folder: WorkFolder) -> None:
    """The pid is alive but belongs to somebody else now."""
    document = {"pid": os.getpid(), "pgid": os.getpid(), "create_time": 1.0, "cgroup": ""}
    folder.process_file.write_text(json.dumps(document))
    ended = until_ended(ProcessLauncher(), folder)
    assert ended.vanished


def test_limits_go_into_a_cgroup_where_there_is_one(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids\n")
    applied = limits.apply("att-x", 8 << 30, 4, root=tmp_path)
    own = tmp_path / "trainmaster" / "att-x"
    assert applied.cgroup == str(own)
    assert (own / "memory.max").read_text() == str(8 << 30)
    assert (own / "cpu.max").read_text() == "400000 100000"
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+memory +cpu"
    assert applied.sentence == f"memory 8 GiB and 4 CPUs, held by cgroup {own}"


def test_without_a_cgroup_the_sentence_says_what_holds_instead(tmp_path: Path) -> None:
    applied = limits.apply("att-x", 8 << 30, 4, root=tmp_path)
    assert applied.watch_memory_bytes == 8 << 30
    assert applied.sentence.startswith(
        "memory 8 GiB held by watching it, 4 CPUs by thread count only (no cgroup v2"
    )


FORGES = """
echo '{"exit_code": 0}' > $TRAINMASTER_DIR/exit.json
echo '{"exit_code": 0}' > $TRAINMASTER_DIR/../../records/$TRAINMASTER_ATTEMPT/exit.json
(setsid sh -c 'trap "" TERM HUP; echo stays; sleep 300' &)
echo forged; while ! grep -q stays $TRAINMASTER_DIR/logs/rank-0.log; do sleep 0.05; done
kill -9 $PPID; echo killed; sleep 300
"""


def test_an_end_that_the_job_wrote_itself_does_not_count(
    launcher: ProcessLauncher, folder: WorkFolder
) -> None:
    launcher.start(order(launcher, folder, FORGES))
    ended = until_ended(launcher, folder)
    assert (ended.exit_code, ended.vanished) == (137, True)
    assert processes.marked(folder.attempt_id) == []
    assert until_ended(ProcessLauncher(), folder) == ended


def test_a_job_that_forges_its_end_after_a_restart_of_the_agent_keeps_nothing_alive(
    launcher: ProcessLauncher, folder: WorkFolder
) -> None:
    waits = "echo here; while [ ! -e $TRAINMASTER_DIR/go-on ]; do sleep 0.05; done;"
    launcher.start(order(launcher, folder, waits + FORGES))
    until_logged(folder, "here")
    later = ProcessLauncher()
    assert isinstance(later.adopt(folder), Alive)
    (folder.path / "go-on").touch()
    until_logged(folder, "killed")
    launcher.poll(folder)  # reaps its child
    until_ended(later, folder)
    assert processes.marked(folder.attempt_id) == []


def test_the_end_of_one_part_of_a_gang_leaves_another_part_on_this_machine_alone(
    launcher: ProcessLauncher, folder: WorkFolder, tmp_path: Path
) -> None:
    """Several agents on one machine, as `trainmaster up` starts them."""
    other = WorkFolders(tmp_path / "other").of(folder.attempt_id)
    other.create()
    launcher.start(order(launcher, other, "echo here; sleep 300"))
    until_logged(other, "here")
    launcher.start(order(launcher, folder, "exit 0"))
    assert until_ended(launcher, folder).exit_code == 0
    assert isinstance(launcher.poll(other), Alive)
    launcher.stop(other, 0)
    assert until_ended(launcher, other).killed_after_grace


def test_a_job_that_removes_the_order_to_stop_is_killed_all_the_same(
    launcher: ProcessLauncher, folder: WorkFolder
) -> None:
    evades = "trap 'rm -f $TRAINMASTER_DIR/stop; echo removed' TERM; echo here; while :; do sleep 0.05; done"
    launcher.start(order(launcher, folder, evades))
    until_logged(folder, "here")
    launcher.stop(folder, 1)
    until_logged(folder, "removed")
    assert until_ended(launcher, folder).killed_after_grace
