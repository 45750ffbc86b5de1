"""The disk of a node fills up: nothing that is there is lost, and all goes on by itself once there is room."""

from __future__ import annotations

import json
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.launchers import exits
from agent.uplink.cursors import Source
from tests.agent.uplink.bench import Bench

Disk = Callable[[bool], None]


@pytest.fixture
def disk_is_full() -> Iterator[Disk]:
    """Every write of this process to a file fails, by the kernel."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def full(yes: bool) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0 if yes else before[0], before[1]))

    yield full
    full(False)


def test_lines_written_while_the_disk_is_full_go_up_once_there_is_room(
    bench: Bench, disk_is_full: Disk
) -> None:
    bench.log("before\n")
    bench.exchange()
    bench.log("meanwhile\n")
    disk_is_full(True)
    for _ in range(3):
        with pytest.raises(OSError, match="File too large"):
            bench.step()
    disk_is_full(False)
    bench.log("after\n")
    bench.exchange()
    bench.exchange()
    assert bench.server.text(Source.LOG, 0) == "before\nmeanwhile\nafter\n"


def test_an_ended_attempt_says_all_it_has_though_the_disk_stays_full(
    bench: Bench, disk_is_full: Disk
) -> None:
    bench.log("last words\n")
    bench.metrics(7)
    disk_is_full(True)
    bench.drain()
    disk_is_full(False)
    assert bench.server.text(Source.LOG, 0) == "last words\n"
    assert bench.steps() == [7]
    bench.new_agent()
    bench.drain()
    assert bench.server.text(Source.LOG, 0) == "last words\n"


def test_the_end_of_an_attempt_is_written_over_blocks_that_were_reserved(
    tmp_path: Path, disk_is_full: Disk
) -> None:
    exits.reserve_exit(tmp_path)
    reserved = tmp_path / ".exit.json.new"
    assert reserved.stat().st_size == exits.EXIT_BYTES
    place = reserved.stat().st_ino
    disk_is_full(True)
    pauses: list[None] = []

    def pause() -> None:
        pauses.append(None)
        disk_is_full(False)

    exits.write_exit(tmp_path, {"exit_code": 3}, pause)
    assert len(pauses) == 1, "it tried again"
    assert (tmp_path / "exit.json").stat().st_ino == place
    assert json.loads((tmp_path / "exit.json").read_text())["exit_code"] == 3


def test_a_forgotten_attempt_needs_no_end(tmp_path: Path) -> None:
    exits.write_exit(tmp_path / "gone", {"exit_code": 3})
    assert not (tmp_path / "gone").exists()
