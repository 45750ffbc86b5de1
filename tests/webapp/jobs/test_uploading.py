"""Code that a browser uploads as an archive, for the form of a job."""

import gzip
import html
import io
import re
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from platform_core.errors import TrainmasterError
from webapp.accounts.models import User
from webapp.artifacts import archives
from webapp.artifacts import queries as artifacts
from webapp.artifacts.models import Manifest, Upload

pytestmark = pytest.mark.usefixtures("cluster")
Browser = Callable[[User], Client]
FILES = {"trainer/train.py": b"print(1)", "trainer/lib/data.py": b"", "trainer/__pycache__/x.pyc": b"junk"}


def zipped(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return buffer.getvalue()


def tarred(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path, content in files.items():
            entry = tarfile.TarInfo(f"./{path}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def uncompressed(files: Mapping[str, bytes]) -> bytes:
    return gzip.decompress(tarred(files))


def upload(
    client: Client, content: bytes, name: str = "trainer.zip", team: str = "vision"
) -> tuple[int, str]:
    form = {"team": team, "command": "train.py", "archive": SimpleUploadedFile(name, content)}
    answer = client.post("/jobs/code/?block=code", form, headers={"HX-Request": "true"})
    return answer.status_code, html.unescape(answer.content.decode())


@pytest.mark.parametrize("pack", [zipped, tarred])
def test_an_archive_becomes_a_bundle_that_the_form_has_chosen(
    pack: Callable[[Mapping[str, bytes]], bytes], browser: Browser, owner: User
) -> None:
    status, fragment = upload(browser(owner), pack(FILES))
    assert status == 200
    [chosen] = re.findall(r'<option value="(man-\w+)" selected>trainer.zip of vision</option>', fragment)
    assert artifacts.paths(chosen) == {"train.py", "lib/data.py"}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"no archive", "it is no zip or tar archive that can be read"),
        (b"", "it is no zip or tar archive that can be read"),
        (zipped({}), "it has no files"),
        (zipped(FILES)[:-40], "it is no zip or tar archive that can be read"),
        (tarred({"a.bin": bytes(100_000)})[:60], "it is no zip or tar archive that can be read"),
        (zipped({f"f{number}": b"" for number in range(11)}), "it has more than 10 files"),
        (zipped({"zeros": bytes(2_000)}), "it unpacks to more than 1000 B; upload data as a dataset"),
        (zipped({"../outside.py": b""}), "../outside.py"),
    ],
    ids=["text", "nothing", "empty", "cut-zip", "cut-tar", "many-files", "large", "leads-outside"],
)
def test_what_is_no_archive_of_code_is_refused_at_the_field(
    content: bytes, why: str, browser: Browser, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "_MOST_FILES", 10)
    monkeypatch.setattr(archives, "_MOST_BYTES", 1_000)
    status, fragment = upload(browser(owner), content)
    [problem] = re.findall(r'id="problem-code">([^<]*)', fragment)
    assert (status, why in problem) == (422, True), problem
    assert not Manifest.objects.exists()


@pytest.mark.parametrize("pack", [zipped, tarred, uncompressed], ids=["zip", "tar.gz", "tar"])
def test_no_damage_of_an_archive_is_more_than_a_refusal(
    pack: Callable[[Mapping[str, bytes]], bytes], tmp_path: Path
) -> None:
    """300 of each, the same each time."""
    random, content = Random(pack.__name__), pack(FILES)
    archive, into = tmp_path / "archive", tmp_path / "into"
    for _ in range(300):
        damaged = bytearray(content)
        for _ in range(random.randint(1, 3)):
            damaged[random.randrange(len(content))] = random.randrange(256)
        archive.write_bytes(damaged)
        with suppress(TrainmasterError):
            archives._unpacked("a", archive, str(into))
        assert into.stat().st_size <= archives._MOST_BYTES


def test_a_form_without_a_file_says_what_to_choose(browser: Browser, owner: User) -> None:
    answer = browser(owner).post("/jobs/code/?block=code", {"team": "vision"}, headers={"HX-Request": "true"})
    assert answer.status_code == 422
    assert "choose a zip or tar file" in answer.content.decode()


def test_nobody_uploads_into_a_team_of_others(browser: Browser, outsider: User, viewer: User) -> None:
    status, fragment = upload(browser(outsider), zipped(FILES))
    assert (status, "no team vision" in fragment) == (422, True)
    assert upload(browser(viewer), zipped(FILES))[0] == 403
    assert not Upload.objects.exists()


def programs(manifest: str) -> set[str]:
    document = Manifest.objects.get(id=manifest).document
    return {file["path"] for file in document["files"] if file.get("executable")}


@pytest.mark.parametrize("form", ["zip", "tar.gz"])
def test_the_programs_of_an_archive_stay_programs(form: str, browser: Browser, owner: User) -> None:
    buffer = io.BytesIO()
    modes = {"run.sh": 0o755, "bin/tool": 0o700, "train.py": 0o644, "group.sh": 0o674}
    if form == "zip":
        with zipfile.ZipFile(buffer, "w") as zipping:
            for path, mode in modes.items():
                entry = zipfile.ZipInfo(path)
                entry.external_attr = (0o100000 | mode) << 16
                zipping.writestr(entry, b"#!/bin/sh")
    else:
        with tarfile.open(fileobj=buffer, mode="w:gz") as packing:
            for path, mode in modes.items():
                member = tarfile.TarInfo(f"./{path}")
                member.size, member.mode = 9, mode
                packing.addfile(member, io.BytesIO(b"#!/bin/sh"))
    status, fragment = upload(browser(owner), buffer.getvalue(), f"code.{form}")
    assert status == 200
    [chosen] = re.findall(r'<option value="(man-\w+)" selected>', fragment)
    assert programs(chosen) == {"run.sh", "bin/tool"}
