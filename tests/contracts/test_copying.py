"""Bytes into a store with their manifest and out again, for every kind of store."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from platform_core.distribution.content.manifest import Manifest, from_json
from platform_core.distribution.planning.sizes import Sizes
from platform_core.errors import TrainmasterError
from tests.contracts.stores import Written
from trainmaster.store import open_store
from trainmaster.store.address import parse, url_of
from trainmaster.store.copying import copy_in, describe, fetch, source_url

FILES = {
    "weights.bin": bytes(range(256)) * 300,
    "config/model.json": b"{}",
    "config/empty": b"",
    "tokenizer.txt": b"x" * 16_384,
}
CHUNK, PIECE = 16_384, 4_096


def cut(total: int) -> Sizes:
    return Sizes(CHUNK, PIECE)


def content(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def copied(written: Written) -> tuple[Manifest, str]:
    files = [(path, io.BytesIO(data)) for path, data in FILES.items()]
    manifest = copy_in(written.store, "model", "up-1", files, CHUNK, PIECE)
    return manifest, source_url(written.store.url, "model", "up-1")


def test_what_is_copied_in_can_be_fetched_again(writable: Written, tmp_path: Path) -> None:
    manifest, url = copied(writable)
    seen: list[int] = []
    fetch(manifest, url, tmp_path / "out", seen.append)
    assert content(tmp_path / "out") == FILES
    assert sum(seen) == manifest.total_bytes
    path = f"manifests/{manifest.id}.json"
    document = writable.store.read_range(path, 0, writable.store.size(path))
    assert from_json(document) == manifest


def test_a_folder_in_place_is_described_without_being_copied(writable: Written) -> None:
    manifest, url = copied(writable)
    before = list(writable.store.list())
    seen: list[int] = []
    assert describe(url + "/", "model", cut, seen.append)[:2] == (manifest, url)
    assert list(writable.store.list()) == before
    assert sum(seen) == manifest.total_bytes


def test_a_single_file_is_described_under_its_folder(readable: Written, tmp_path: Path) -> None:
    readable.put("v 1/weights.bin", FILES["weights.bin"])
    manifest, base, _ = describe(f"{readable.store.url}/v 1/weights.bin", "model", cut)
    assert base == url_of(parse(f"{readable.store.url}/v 1"))
    fetch(manifest, base, tmp_path / "out")
    assert content(tmp_path / "out") == {"weights.bin": FILES["weights.bin"]}


def test_nothing_at_the_url_is_an_error_with_its_name(readable: Written) -> None:
    with pytest.raises(TrainmasterError, match="nothing cannot be read: there is no such file or folder"):
        describe(f"{readable.store.url}/nothing", "model")


def test_damaged_bytes_never_become_a_file(writable: Written, tmp_path: Path) -> None:
    manifest, url = copied(writable)
    damaged = bytearray(FILES["weights.bin"])
    damaged[50_000] ^= 1
    writable.store.write("model/up-1/weights.bin", [bytes(damaged)])
    with pytest.raises(TrainmasterError) as refused:
        fetch(manifest, url, tmp_path / "out")
    assert refused.value.code == "verification_failed"
    assert "weights.bin (chunk " in refused.value.sentence
    assert content(tmp_path / "out") == {}


def test_a_second_fetch_takes_only_what_is_missing(writable: Written, tmp_path: Path) -> None:
    manifest, url = copied(writable)
    fetch(manifest, url, tmp_path / "out")
    (tmp_path / "out" / "tokenizer.txt").write_bytes(b"y" * 16_384)
    seen: list[int] = []
    fetch(manifest, url, tmp_path / "out", seen.append)
    assert content(tmp_path / "out") == FILES
    assert seen == [16_384]


def test_a_fetch_can_be_stopped_and_leaves_nothing_half(writable: Written, tmp_path: Path) -> None:
    manifest, url = copied(writable)

    def stop(count: int) -> None:
        raise InterruptedError("cancelled")

    with pytest.raises(InterruptedError, match="cancelled"):
        fetch(manifest, url, tmp_path / "out", stop)
    assert content(tmp_path / "out") == {}


def test_a_source_that_vanished_is_named(tmp_path: Path) -> None:
    store = open_store((tmp_path / "store").as_uri())
    manifest = copy_in(store, "code", "up-2", [("train.py", [b"print()"])])
    store.delete("code/up-2/train.py")
    with pytest.raises(TrainmasterError, match=r"train\.py cannot be read: there is no such file"):
        fetch(manifest, source_url(store.url, "code", "up-2"), tmp_path / "out")
