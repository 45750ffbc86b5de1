"""`trainmaster dataset`: what a person is told of files that are not sent, and of a source that has changed."""

import os
from pathlib import Path

import pytest

from tests.sdk.conftest import Trainmaster
from tests.sdk.platform_stub import PlatformStub

CHECKED = {"id": "ds-1", "name": "faces", "version": 1, "source": "file:///data/faces", "checked_ms": 1}


def test_a_push_names_the_links_that_it_does_not_follow(
    trainmaster: Trainmaster, platform: PlatformStub, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "passwords").symlink_to("/etc/passwd")
    result = trainmaster("dataset", "push", "data", "--name", "faces", "--purpose", "train", code=1)
    assert "Left out: passwords; links that lead out of the folder" in result.stderr
    assert "data has no files to send." in result.stderr
    assert not platform.requests("POST", "uploads")


def test_a_push_sends_the_rest_and_names_the_file_whose_name_is_not_utf8(
    trainmaster: Trainmaster, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / os.fsdecode(b"caf\xe9.txt")).write_text("latin")
    result = trainmaster("dataset", "push", "data", "--name", "faces", "--purpose", "train", code=1)
    assert "Left out: caf\\xe9.txt; " in result.stderr
    assert "names that are not UTF-8" in result.stderr


@pytest.mark.parametrize("kind", ["added", "changed", "removed"])
def test_what_has_changed_at_the_source_is_named(
    trainmaster: Trainmaster, platform: PlatformStub, kind: str
) -> None:
    found = {"summary": f"1 {kind}", "differs": True, kind: ["shard-07.tar"]}
    platform.answer("GET dataset-snapshots/ds-1", {**CHECKED, "check_result": found})
    lines = trainmaster("dataset", "show", "ds-1").stdout.splitlines()
    assert lines[-2].split()[0] == "Verified"
    assert lines[-2].endswith(f"ago: 1 {kind}")
    assert lines[-1].split() == [kind, "shard-07.tar"]


def test_a_source_that_was_never_verified_says_so(trainmaster: Trainmaster, platform: PlatformStub) -> None:
    platform.answer("GET dataset-snapshots/ds-1", {**CHECKED, "checked_ms": None})
    assert "not since it was registered" in trainmaster("dataset", "show", "ds-1").stdout


def test_a_list_says_which_versions_no_job_can_use(trainmaster: Trainmaster, platform: PlatformStub) -> None:
    platform.answer("GET datasets", {"results": [{**CHECKED, "state": "deleted"}]})
    assert trainmaster("dataset", "list").stdout.splitlines()[1].split()[:4] == [
        "faces",
        "1",
        "ds-1",
        "deleted",
    ]
