"""A job puts links and special files where the agent reads and writes: nothing outside its folder is touched."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from agent.attempts.records import read_record, verdict_of
from agent.files import read_json, write_atomically
from agent.job_files import JobPath
from agent.launchers.contract import Ended
from agent.launchers.exits import leave_exit, read_exit
from agent.uplink.bounds import punch
from agent.uplink.cursors import Source
from platform_core.distribution.content.manifest import from_json
from tests.agent.uplink.bench import Bench

SECRET = "what only the agent may read\n"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "rank-3.log").write_text(SECRET)
    (folder / "rank-3.jsonl").write_text(
        '{"kind":"init","at_ms":1,"params":{"k":"what only the agent may read"}}\n'
    )
    return folder


def everything(bench: Bench) -> str:
    """All that went up, and all that lies in the store."""
    sent = "".join(repr(batch) for kept in bench.server.kept.values() for batch in kept.values())
    stored = [path.read_text() for path in bench.store.rglob("*") if path.is_file()]
    return "".join([sent, *stored])


def test_a_link_as_the_log_of_a_rank_is_not_read(bench: Bench, outside: Path) -> None:
    (bench.folder.logs / "rank-7.log").symlink_to(outside / "rank-3.log")
    bench.log("mine\n")
    bench.drain()
    assert bench.server.text(Source.LOG, 0) == "mine\n"
    assert (Source.LOG, 7) not in bench.server.kept
    assert "only the agent" not in everything(bench)


@pytest.mark.parametrize("name", ["logs", "spool"])
def test_a_link_in_place_of_a_folder_is_not_followed(bench: Bench, outside: Path, name: str) -> None:
    (bench.folder.path / name).rmdir()
    (bench.folder.path / name).symlink_to(outside)
    bench.line("no") if name == "logs" else bench.log("mine\n")
    bench.drain()
    assert "only the agent" not in everything(bench)
    assert not (outside / "launcher.log").exists()
    assert (outside / "rank-3.log").read_text() == SECRET


def test_a_link_in_place_of_the_launchers_log_is_not_written_through(bench: Bench, outside: Path) -> None:
    bench.folder.launcher_log.symlink_to(outside / "rank-3.log")
    bench.line("no JSON")
    bench.drain()
    assert (outside / "rank-3.log").read_text() == SECRET
    assert "only the agent" not in everything(bench)


def test_no_hole_is_punched_through_a_link(bench: Bench, outside: Path) -> None:
    large = outside / "large"
    large.write_bytes(b"x" * (1 << 20))
    (bench.folder.logs / "rank-0.log").symlink_to(large)
    assert not punch(JobPath(bench.folder.path, "logs/rank-0.log"), 0, 1 << 20)
    assert large.read_bytes() == b"x" * (1 << 20)


def test_links_in_an_artifact_are_left_out_and_counted(
    bench: Bench, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = bench.folder.work / "plots"
    (place / "deep").mkdir(parents=True)
    (place / "deep" / "real.txt").write_text("mine")
    (place / "passwd").symlink_to(outside / "rank-3.log")
    (place / "folder").symlink_to(outside)
    os.mkfifo(place / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        monkeypatch.chdir(place)  # the path of a socket is short
        listener.bind("s")
    bench.event(kind="artifact", name="plots", path="work/plots")
    bench.drain()
    (batch,) = bench.server.kept[Source.ARTIFACT, 0].values()
    assert batch.artifact is not None
    assert [entry.path for entry in from_json(batch.artifact.manifest_json).files] == ["deep/real.txt"]
    assert "was uploaded without its 4 links and special files" in bench.notes()
    assert "only the agent" not in everything(bench)


@pytest.mark.parametrize(
    "path", ["work/link", "work/folder/rank-3.log", "work/fifo", "work/device", "work/gone"]
)
def test_no_artifact_is_made_of_a_link_or_a_special_file(bench: Bench, outside: Path, path: str) -> None:
    (bench.folder.work / "link").symlink_to(outside / "rank-3.log")
    (bench.folder.work / "folder").symlink_to(outside)
    (bench.folder.work / "device").symlink_to("/dev/zero")
    os.mkfifo(bench.folder.work / "fifo")
    bench.event(kind="artifact", name="x", path=path)
    bench.drain()
    assert (Source.ARTIFACT, 0) not in bench.server.kept
    assert "its path leads to no file or folder of the attempt" in bench.notes()
    assert "only the agent" not in everything(bench)


def test_nothing_is_removed_through_a_link(bench: Bench, outside: Path) -> None:
    bench.folder.checkpoints.rmdir()
    bench.folder.checkpoints.symlink_to(outside)
    (outside / "step-00000001").mkdir()
    JobPath(bench.folder.path, "checkpoints/step-00000001").remove()
    JobPath(bench.folder.path, "checkpoints").remove()
    assert (outside / "step-00000001").is_dir()


@pytest.mark.parametrize("make", ["fifo", "device", "link", "folder"])
def test_special_files_in_place_of_logs_and_exits_block_nobody(
    bench: Bench, outside: Path, make: str
) -> None:
    for place in (bench.folder.rank_log(5), bench.folder.ranks / "rank-5.exit", bench.folder.exit_file):
        match make:
            case "fifo":
                os.mkfifo(place)
            case "device":
                place.symlink_to("/dev/zero")
            case "link":
                place.symlink_to(outside / "rank-3.log")
            case _:
                place.mkdir()
    verdict = verdict_of(bench.folder, Ended(1), 1, resumed=False)
    assert "only the agent" not in verdict.reason
    assert read_exit(bench.folder) is None
    bench.drain()
    assert "only the agent" not in everything(bench)


@pytest.mark.parametrize(
    "text",
    [
        '{"exit_code": 1e999}',
        '{"exit_code": [1]}',
        "9" * 5000,
        "[" * 100_000,
        '{"exit_code": 99999999999, "error": "\\ud800"}',
    ],
)
def test_what_a_rank_wrote_over_its_exit_gives_a_verdict_that_can_be_sent(bench: Bench, text: str) -> None:
    (bench.folder.ranks / "rank-0.exit").write_text(text)
    (bench.folder.rank_log(0)).write_bytes(b"ValueError: \0\xff" + b"x" * 5000)
    for ended in (Ended(1), Ended(10**30), Ended(137, trouble="\ud800" * 10_000)):
        verdict = verdict_of(bench.folder, ended, 1, resumed=True)
        assert 0 <= verdict.exit_code <= 255
        assert len(verdict.reason) <= 1000
        assert "\0" not in verdict.reason
        verdict.reason.encode()


def test_the_end_is_written_in_place_of_a_link_and_not_through_it(bench: Bench, outside: Path) -> None:
    bench.folder.exit_file.symlink_to(outside / "rank-3.log")
    bench.folder.exit_file.with_name(f".exit.json.{os.getpid()}").symlink_to(outside / "rank-3.log")
    leave_exit(bench.folder, Ended(3))
    assert read_exit(bench.folder) == Ended(3)
    assert (outside / "rank-3.log").read_text() == SECRET


def test_what_a_restarted_agent_believes_lies_where_no_container_writes(bench: Bench) -> None:
    bench.log("one\n")
    bench.exchange()
    assert {path.name for path in bench.folder.path.iterdir() if path.is_file()} == set()
    (bench.folder.path / "attempt.json").write_text('{"checkpoint_upload_url": "file:///etc"}')
    assert read_record(bench.folder) is None
    bench.folder.delete()
    assert not bench.folder.records.exists()


@pytest.mark.parametrize(
    "text", ["[]", '{"offsets": 3}', '{"gaps": {"0": 1}}', '{"planned": {"log:0": "x"}}', "[" * 10**5]
)
def test_damaged_cursors_are_begun_anew(bench: Bench, text: str) -> None:
    bench.folder.uplink_file.write_text(text)
    bench.new_agent()
    bench.log("one\n")
    bench.drain()
    assert bench.server.text(Source.LOG, 0) == "one\n"


def test_a_path_beneath_a_folder_has_no_dots(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    for name in ("", ".", "..", "../a", "a/..", "./a", "/a", "b//a"):
        assert JobPath(tmp_path, name).read(0, 1) == b"", name
        assert not JobPath(tmp_path, name).exists(), name


def test_a_record_is_whole_or_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    for number in (1, 2):
        write_atomically(path, json.dumps({"gap": number}).encode())
        assert read_json(path) == {"gap": number}
    assert [entry.name for entry in tmp_path.iterdir()] == ["record.json"]
