"""What of a folder is sent when the platform has some of it already."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.sdk.platform_stub import TOKEN, PlatformStub
from trainmaster.client import Client
from trainmaster.connection import ApiError
from trainmaster.uploads import Earlier, Uploaded

OLD, NEW = b"the same as before", b"has come since"


@pytest.fixture
def files(tmp_path: Path, platform: PlatformStub) -> list[tuple[str, Path]]:
    """A folder of two files; the platform accepts both, and the end of two uploads."""
    for name, content in (("old.bin", OLD), ("new.bin", NEW)):
        (tmp_path / name).write_bytes(content)
    for upload in ("up-1", "up-2"):
        for name in ("old.bin", "new.bin"):
            platform.answer(f"PUT uploads/{upload}/files/{name}", {}, 201)
        platform.answer(f"POST uploads/{upload}/complete", {"manifest": f"man-of-{upload}"}, 201)
    return [(name, tmp_path / name) for name in ("old.bin", "new.bin")]


def received(content: bytes) -> dict[str, object]:
    return {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}


def send(
    platform: PlatformStub, files: Sequence[tuple[str, Path]], earlier: Earlier | None = None
) -> tuple[Uploaded, list[str]]:
    """What came of it, and the paths that were sent."""
    with Client(platform.url, TOKEN) as client:
        done = client.upload_again("dataset", "vision", "corpus", files, earlier=earlier)
    return done, sorted(asked.path.removeprefix("uploads/") for asked in platform.requests("PUT"))


def test_an_upload_that_broke_off_goes_on_with_what_was_not_received(
    platform: PlatformStub, files: list[tuple[str, Path]]
) -> None:
    platform.answer("POST uploads", {"id": "up-1", "files": {"old.bin": received(OLD)}}, 201)
    done, sent = send(platform, files)
    assert sent == ["up-1/files/new.bin"]
    assert done == Uploaded("man-of-up-1", kept=1, kept_bytes=len(OLD))
    assert platform.requests("POST", "uploads")[0].json["resume"] is True
    assert platform.requests("POST", "uploads/up-1/complete")[0].json == {"files": 2}


def test_a_file_that_changed_since_it_was_received_is_sent_again(
    platform: PlatformStub, files: list[tuple[str, Path]]
) -> None:
    changed = received(OLD[::-1])
    platform.answer("POST uploads", {"id": "up-1", "files": {"old.bin": changed}}, 201)
    assert send(platform, files)[1] == ["up-1/files/new.bin", "up-1/files/old.bin"]


def test_an_upload_with_files_that_the_folder_does_not_have_is_left_alone(
    platform: PlatformStub, files: list[tuple[str, Path]]
) -> None:
    platform.answer("POST uploads", {"id": "up-1", "files": {"deleted.bin": received(OLD)}}, 201)
    platform.answer("POST uploads", {"id": "up-2", "files": {}}, 201)
    done, sent = send(platform, files)
    assert done.manifest == "man-of-up-2"
    assert sent == ["up-2/files/new.bin", "up-2/files/old.bin"]


def test_a_file_of_the_version_before_is_named_instead_of_sent(
    platform: PlatformStub, files: list[tuple[str, Path]]
) -> None:
    platform.answer("POST uploads", {"id": "up-1", "files": {}}, 201)
    platform.answer("POST uploads/up-1/earlier", {"taken": ["old.bin"], "missing": []})
    digest = hashlib.sha256(OLD).hexdigest()
    done, sent = send(platform, files, Earlier("man-1", {digest: len(OLD)}))
    assert sent == ["up-1/files/new.bin"]
    assert done.kept == 1
    named = platform.requests("POST", "uploads/up-1/earlier")[0].json
    assert named == {"manifest": "man-1", "files": [{"path": "old.bin", "sha256": digest}]}


def test_a_thousand_files_of_the_version_before_are_named_at_once(
    platform: PlatformStub, tmp_path: Path
) -> None:
    names = [f"{number:04}.bin" for number in range(1_100)]
    for name in names:
        (tmp_path / name).write_bytes(OLD)
    platform.answer("POST uploads", {"id": "up-1", "files": {}}, 201)
    platform.answer("POST uploads/up-1/earlier", {"taken": names[:1_000], "missing": []})
    platform.answer("POST uploads/up-1/earlier", {"taken": names[1_000:], "missing": []})
    platform.answer("POST uploads/up-1/complete", {"manifest": "man-2"}, 201)
    earlier = Earlier("man-1", {hashlib.sha256(OLD).hexdigest(): len(OLD)})
    done, sent = send(platform, [(name, tmp_path / name) for name in names], earlier)
    assert (done, sent) == (Uploaded("man-2", kept=1_100, kept_bytes=1_100 * len(OLD)), [])
    asked = [request.json["files"] for request in platform.requests("POST", "uploads/up-1/earlier")]
    assert [[file["path"] for file in files] for files in asked] == [names[:1_000], names[1_000:]]


def test_a_file_that_the_platform_has_no_more_is_sent(
    platform: PlatformStub, files: list[tuple[str, Path]]
) -> None:
    platform.answer("POST uploads", {"id": "up-1", "files": {}}, 201)
    platform.answer("POST uploads/up-1/earlier", {"taken": [], "missing": ["old.bin"]})
    done, sent = send(platform, files, Earlier("man-1", {hashlib.sha256(OLD).hexdigest(): len(OLD)}))
    assert sent == ["up-1/files/new.bin", "up-1/files/old.bin"]
    assert done.kept == 0


def test_a_refused_file_ends_the_upload_with_the_reason(
    platform: PlatformStub, files: list[tuple[str, Path]]
) -> None:
    platform.answer("POST uploads", {"id": "up-1", "files": {}}, 201)
    platform.answers["PUT uploads/up-1/files/old.bin"] = []
    platform.refuse("PUT uploads/up-1/files/old.bin", 413, "too_large", "old.bin brings team vision over")
    with pytest.raises(ApiError, match="brings team vision over"):
        send(platform, files)
    assert not platform.requests("POST", "uploads/up-1/complete")
