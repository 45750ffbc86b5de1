from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.distribution.content import manifest as m
from platform_core.errors import TrainmasterError

FILES = st.dictionaries(
    st.sampled_from(["a", "b/c", "b/d", "weights.bin", "ü/ž"]), st.binary(max_size=200), max_size=5
)


def build(files: dict[str, bytes], chunk: int = 16, piece: int = 4, step: int = 7) -> m.Manifest:
    builder = m.ManifestBuilder("model", chunk, piece)
    for path, data in files.items():
        builder.feed(path, b"")
        for start in range(0, len(data), step):
            builder.feed(path, data[start : start + step])
    return builder.finish()


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@given(FILES, st.integers(1, 40), st.sampled_from([(16, 4), (4, 4), (64, 1), (40, 8)]))
def test_every_digest_is_the_plain_sha256_of_its_bytes(
    files: dict[str, bytes], step: int, sizes: tuple[int, int]
) -> None:
    manifest = build(files, *sizes, step)
    assert {f.path: (f.size, f.sha256) for f in manifest.files} == {
        path: (len(data), sha(data)) for path, data in files.items()
    }
    whole: dict[str, bytes] = dict.fromkeys(files, b"")
    for chunk in manifest.chunks:
        path = manifest.files[chunk.file].path
        data = files[path][chunk.offset : chunk.offset + chunk.size]
        assert chunk.sha256 == sha(data)
        for piece in manifest.pieces(chunk):
            part = files[path][piece.offset : piece.offset + piece.size]
            assert piece.sha256 == sha(part)
            assert piece == manifest.piece(chunk, piece.index)
            whole[path] += part
    assert whole == files


@given(FILES)
def test_json_brings_the_same_manifest_back(files: dict[str, bytes]) -> None:
    manifest = build(files)
    assert m.from_json(m.to_json(manifest)) == manifest
    assert manifest.id.startswith("man-")
    assert len(manifest.id) == 36


@given(FILES, st.integers(1, 50))
def test_an_upload_file_by_file_gives_the_same_manifest(files: dict[str, bytes], step: int) -> None:
    parts = []
    for path, data in reversed(files.items()):
        digester = m.FileDigester(path, 16, 4)
        for start in range(0, len(data), step):
            digester.feed(data[start : start + step])
        parts.append(m.FilePart.from_document(json.loads(json.dumps(digester.finish().as_document()))))
    assert m.join("model", parts, 4) == build(files)


def test_equal_bytes_under_another_kind_are_another_manifest() -> None:
    model, code = m.ManifestBuilder("model"), m.ManifestBuilder("code")
    model.feed("a", b"1")
    code.feed("a", b"1")
    assert model.finish().id != code.finish().id


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "../up",
        "a/../../b",
        "a//b",
        "./a",
        "",
        "a\\b",
        "C:x",
        "a/",
        "a\0b",
        "\ud800",
        "a" * 256,
    ],
)
def test_paths_that_could_leave_their_folder_are_refused(path: str) -> None:
    document = m.as_document(build({"a": b"12345"}))
    document["files"][0]["path"] = path
    with pytest.raises(TrainmasterError, match="path"):
        m.from_document(document)


def spoil(name: str, document: dict) -> None:
    first, second = document["chunks"][0], document["chunks"][1]
    match name:
        case "gap":
            second["offset"] += 1
        case "overlap":
            second["offset"] -= 1
        case "short":
            document["chunks"].pop()
        case "duplicate":
            document["files"].append(document["files"][0])
        case "file and folder":
            document["files"].append({"path": "big/x", "size": 0, "sha256": sha(b"")})
        case "digest":
            first["sha256"] = first["sha256"].upper() + "Z"
        case "pieces":
            first["pieces"].pop()
        case "total":
            document["total_bytes"] += 1
        case "negative":
            first["size"] = -16
        case "true":
            first["file"] = True
        case "other bytes":
            first["pieces"][0] = sha(b"other")
        case "huge chunk":
            first["size"] = 2 << 30
        case "kind":
            document["kind"] = "cat"
        case "missing":
            del document["chunks"]
        case "format":
            document["format"] = 99


SPOILED = [
    "gap", "overlap", "short", "duplicate", "file and folder", "digest", "pieces", "total", "negative",
    "true", "other bytes", "huge chunk", "kind", "missing", "format",
]  # fmt: skip


@pytest.mark.parametrize("name", SPOILED)
def test_a_manifest_that_does_not_tile_its_files_is_refused(name: str) -> None:
    document = m.as_document(build({"big": bytes(range(100))}))
    spoil(name, document)
    with pytest.raises(TrainmasterError) as refused:
        m.from_json(json.dumps(document))
    assert refused.value.code == "manifest_invalid"


@pytest.mark.parametrize("text", ["", "[]", "null", "{}", '{"format": 1}', "{"])
def test_what_is_not_a_manifest_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(TrainmasterError, match="The manifest is not valid"):
        m.from_json(text)


@pytest.mark.parametrize(
    ("chunk", "piece"), [(10, 4), (2, 4), (0, 0), (2 << 30, 1 << 20), (1 << 30, 128 << 20)]
)
def test_sizes_that_do_not_fit_each_other_are_refused(chunk: int, piece: int) -> None:
    with pytest.raises(ValueError):
        m.ManifestBuilder("model", chunk, piece)


def test_a_program_is_marked_and_a_manifest_without_one_is_what_it_was() -> None:
    manifest = build({"run.sh": b"echo", "train.py": b"print"})
    assert all("executable" not in file for file in m.as_document(manifest)["files"])
    parts = [
        replace(part, entry=replace(part.entry, executable=part.entry.path == "run.sh"))
        for part in m.split(manifest)
    ]
    marked = m.join(
        "model", [m.FilePart.from_document(part.as_document()) for part in parts], manifest.piece_size
    )
    assert marked.id != manifest.id
    assert [file.executable for file in m.from_json(m.to_json(marked)).files] == [True, False]


@pytest.mark.parametrize("value", [1, "yes", None, []])
def test_a_mark_that_is_neither_true_nor_false_is_refused(value: object) -> None:
    document = m.as_document(build({"run.sh": b"echo"}))
    document["files"][0]["executable"] = value
    with pytest.raises(TrainmasterError, match="neither true nor false"):
        m.from_document(document)
