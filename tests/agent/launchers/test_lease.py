"""The lease as shims see it: renewed, run out, lost in between."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from agent.launchers.container import ContainerLauncher
from agent.launchers.contract import Alive
from agent.launchers.engine import Engine
from agent.launchers.lease import LEASE, boot_ms, read_lease
from agent.launchers.process import ProcessLauncher
from agent.lease import Lease
from agent.work_folder import WorkFolder
from tests.agent.launchers.conftest import order, until_ended, until_logged

STUBBORN = "trap '' TERM; echo here; while :; do sleep 0.1; done"
HOUR_MS = 3_600_000


def test_a_new_agent_goes_on_with_a_lease_that_has_not_run_out(tmp_path: Path) -> None:
    Lease(tmp_path / "lease", 3600).close()
    first = read_lease(str(tmp_path / "lease"))
    Lease(tmp_path / "lease", 30).close()
    second = read_lease(str(tmp_path / "lease"))
    assert first is not None
    assert second is not None
    assert second[0] >= first[0]
    assert (second[1], second[2]) == (first[1], 30_000)


def test_a_lease_that_ran_out_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "lease"
    long_ago = boot_ms() - 20_000
    path.write_bytes(LEASE.pack(long_ago, 0, 10_000))
    Lease(path, 10).close()
    lease = read_lease(str(path))
    assert lease is not None
    assert lease[1] > long_ago


@pytest.mark.parametrize(
    ("renewed_ago_ms", "length_ms", "ran_out_unseen"),
    [(1_000, 1_000, False), (0, HOUR_MS, True)],  # nobody renews it; somebody does, too late
)
@pytest.mark.parametrize("kind", ["process", "container"])
def test_what_runs_ends_when_the_lease_is_lost(
    tmp_path: Path,
    folder: WorkFolder,
    engine: Engine,
    kind: str,
    renewed_ago_ms: int,
    length_ms: int,
    ran_out_unseen: bool,
) -> None:
    path = tmp_path / "lease"
    Lease(path, 3600).close()
    launcher = ProcessLauncher(path) if kind == "process" else ContainerLauncher(engine, path)
    launcher.start(order(launcher, folder, STUBBORN))
    until_logged(folder, "here")
    assert isinstance(launcher.poll(folder), Alive)
    now = boot_ms()
    path.write_bytes(LEASE.pack(now - renewed_ago_ms, now if ran_out_unseen else 0, length_ms))
    ended = until_ended(launcher, folder)
    assert ended.exit_code == 137
    assert ended.agent_silent_ms > 0


def test_a_lease_that_cannot_be_read_ends_nothing(tmp_path: Path, folder: WorkFolder) -> None:
    path = tmp_path / "lease"
    path.write_bytes(b"half")
    launcher = ProcessLauncher(path)
    launcher.start(order(launcher, folder, "sleep 1.2; exit 3"))
    assert until_ended(launcher, folder).exit_code == 3


def test_the_watcher_of_a_container_leaves_with_it(
    tmp_path: Path, folder: WorkFolder, engine: Engine
) -> None:
    path = tmp_path / "lease"
    Lease(path, 3600).close()
    launcher = ContainerLauncher(engine, path)
    launcher.start(order(launcher, folder, "exit 0"))
    assert until_ended(launcher, folder).agent_silent_ms == 0
    with (folder.records / "watcher.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the test's time limit is the wait
