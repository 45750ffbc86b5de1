"""The lease as shims see it: extended, run out, run out and begun anew."""

from __future__ import annotations

import fcntl
from dataclasses import replace
from pathlib import Path

import pytest

from agent.launchers.container import ContainerLauncher
from agent.launchers.contract import Alive, Launcher
from agent.launchers.engine import Engine
from agent.launchers.lease import LEASE, boot_ms, read_lease
from agent.launchers.process import ProcessLauncher
from agent.lease import NodeLease
from agent.work_folder import WorkFolder
from tests.agent.launchers.conftest import order, until_ended, until_logged

STUBBORN = "trap '' TERM; echo here; while :; do sleep 0.1; done"
HOUR_MS = 3_600_000


def acknowledged(path: Path, lost_ms: int) -> NodeLease:
    lease = NodeLease(path)
    lease.last(lost_ms)
    lease.acknowledge(boot_ms())
    return lease


def launcher_of(kind: str, engine: Engine, path: Path) -> Launcher:
    return ProcessLauncher(path) if kind == "process" else ContainerLauncher(engine, path)


def test_a_new_agent_goes_on_with_the_lease_but_does_not_extend_it(tmp_path: Path) -> None:
    acknowledged(tmp_path / "lease", HOUR_MS).close()
    first = read_lease(str(tmp_path / "lease"))
    again = NodeLease(tmp_path / "lease")
    assert read_lease(str(tmp_path / "lease")) == first
    assert again.holds()
    again.close()


def test_a_lease_from_before_a_reboot_is_none(tmp_path: Path) -> None:
    (tmp_path / "lease").write_bytes(LEASE.pack(boot_ms() + HOUR_MS, boot_ms(), HOUR_MS))
    lease = NodeLease(tmp_path / "lease")
    assert not lease.holds()
    lease.close()


def test_an_acknowledgement_counts_from_when_its_heartbeat_was_sent(tmp_path: Path) -> None:
    lease = NodeLease(tmp_path / "lease")
    lease.last(HOUR_MS)
    lease.acknowledge(boot_ms() - HOUR_MS)
    assert not lease.holds()
    lease.close()


def test_a_lease_that_ran_out_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "lease"
    long_ago = boot_ms() - 20_000
    path.write_bytes(LEASE.pack(long_ago, 0, 10_000))
    lease = NodeLease(path)
    assert not lease.acknowledge(boot_ms())
    assert lease.acknowledge(boot_ms())
    written = read_lease(str(path))
    assert written is not None
    assert written.since_ms > long_ago
    lease.close()


@pytest.mark.parametrize(
    ("sent_ago_ms", "length_ms", "ran_out_unseen"),
    [(1_000, 1_000, False), (0, HOUR_MS, True)],  # nothing extends it; something does, too late
)
@pytest.mark.parametrize("kind", ["process", "container"])
def test_what_runs_ends_when_the_lease_is_lost(
    tmp_path: Path,
    folder: WorkFolder,
    engine: Engine,
    kind: str,
    sent_ago_ms: int,
    length_ms: int,
    ran_out_unseen: bool,
) -> None:
    path = tmp_path / "lease"
    acknowledged(path, HOUR_MS).close()
    launcher = launcher_of(kind, engine, path)
    launcher.start(order(launcher, folder, STUBBORN))
    until_logged(folder, "here")
    assert isinstance(launcher.poll(folder), Alive)
    now = boot_ms()
    path.write_bytes(LEASE.pack(now - sent_ago_ms, now if ran_out_unseen else 0, length_ms))
    ended = until_ended(launcher, folder)
    assert ended.exit_code == 137
    assert ended.cut_off_ms > 0


@pytest.mark.parametrize("kind", ["process", "container"])
def test_what_was_ordered_under_a_lease_that_has_run_out_does_not_start(
    tmp_path: Path, folder: WorkFolder, engine: Engine, kind: str
) -> None:
    path = tmp_path / "lease"
    long_ago = boot_ms() - HOUR_MS
    acknowledged(path, HOUR_MS).close()  # begun anew since
    launcher = launcher_of(kind, engine, path)
    launcher.start(replace(order(launcher, folder, f"touch {tmp_path / 'ran'}"), ordered_ms=long_ago))
    assert until_ended(launcher, folder).cut_off_ms > 0
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("kind", ["process", "container"])
def test_what_is_not_leased_goes_on_without_one(
    tmp_path: Path, folder: WorkFolder, engine: Engine, kind: str
) -> None:
    path = tmp_path / "lease"
    path.write_bytes(LEASE.pack(0, 0, 1_000))
    launcher = launcher_of(kind, engine, path)
    launcher.start(replace(order(launcher, folder, "sleep 1.2; exit 3"), leased=False))
    ended = until_ended(launcher, folder)
    assert (ended.exit_code, ended.cut_off_ms) == (3, 0)


def test_a_lease_that_cannot_be_read_for_a_moment_counts_as_it_was(
    tmp_path: Path, folder: WorkFolder
) -> None:
    path = tmp_path / "lease"
    acknowledged(path, HOUR_MS).close()
    launcher = ProcessLauncher(path)
    launcher.start(order(launcher, folder, "echo here; sleep 1.2; exit 3"))
    until_logged(folder, "here")
    path.write_bytes(b"half")
    assert until_ended(launcher, folder).exit_code == 3


def test_nothing_starts_without_a_lease(tmp_path: Path, folder: WorkFolder) -> None:
    (tmp_path / "lease").write_bytes(b"half")
    launcher = ProcessLauncher(tmp_path / "lease")
    launcher.start(order(launcher, folder, f"touch {tmp_path / 'ran'}"))
    assert until_ended(launcher, folder).cut_off_ms > 0
    assert not (tmp_path / "ran").exists()


def test_the_watcher_of_a_container_leaves_with_it(
    tmp_path: Path, folder: WorkFolder, engine: Engine
) -> None:
    path = tmp_path / "lease"
    acknowledged(path, HOUR_MS).close()
    launcher = ContainerLauncher(engine, path)
    launcher.start(order(launcher, folder, "exit 0"))
    assert until_ended(launcher, folder).cut_off_ms == 0
    with (folder.records / "watcher.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the test's time limit is the wait
