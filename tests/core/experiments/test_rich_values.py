"""What may be logged beside numbers, and what is refused."""

from typing import Any

import pytest

from platform_core.errors import TrainmasterError
from platform_core.experiments.rich_values import MAX_FILE_BYTES, Kind, checked, media_type

PNG = b"\x89PNG\r\n\x1a\n...."


def value(kind: str, **changes: Any) -> Any:
    return checked(**{"key": "sample", "step": 1, "index": 0, "kind": kind, "at_ms": 1, **changes})


@pytest.mark.parametrize(
    ("kind", "data", "known"),
    [
        ("image", PNG, "image/png"),
        ("image", b"\xff\xd8\xff\xe0", "image/jpeg"),
        ("image", b"GIF89a..", "image/gif"),
        ("image", b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        ("audio", b"RIFF\0\0\0\0WAVEfmt ", "audio/wav"),
        ("audio", b"OggS", "audio/ogg"),
        ("audio", b"ID3\4", "audio/mpeg"),
        ("audio", b"fLaC", "audio/flac"),
    ],
)
def test_a_file_is_known_by_its_first_bytes(kind: str, data: bytes, known: str) -> None:
    assert value(kind, data=data).media_type == known


@pytest.mark.parametrize("data", [b"", b"<html><script>", b"<svg xmlns=", b"RIFF\0\0\0\0WAVE", b"%PDF-1.7"])
def test_what_is_no_image_is_refused_whatever_it_is_called(data: bytes) -> None:
    with pytest.raises(TrainmasterError, match="PNG, JPEG, GIF or WebP"):
        value("image", data=data)


def test_a_file_beyond_the_limit_is_refused_with_both_numbers() -> None:
    with pytest.raises(TrainmasterError, match="10,485,761 bytes"):
        media_type(Kind.IMAGE, PNG.ljust(MAX_FILE_BYTES + 1))


def test_html_is_refused_with_the_reason() -> None:
    with pytest.raises(TrainmasterError, match="scripts would run as the reader"):
        value("html", document={"html": "<b>"})


def test_a_table_keeps_its_cells_and_marks_what_json_cannot_hold() -> None:
    rows = [[1, "a"], [float("nan"), None]]
    assert value("table", document={"columns": ["x", "y"], "rows": rows}).document == {
        "columns": ["x", "y"],
        "rows": [[1, "a"], ["nan", None]],
    }


@pytest.mark.parametrize(
    ("kind", "document", "why"),
    [
        ("table", {"columns": [], "rows": []}, "names of its columns"),
        ("table", {"columns": ["a"], "rows": [[1, 2]]}, "a list of 1 cells"),
        ("table", {"columns": ["a"], "rows": [[[1]]]}, "a cell is"),
        ("histogram", {"counts": [1], "edges": [0]}, "need 2 edges"),
        ("histogram", {"counts": [1, 1], "edges": [0, 2, 1]}, "that ascend"),
        ("histogram", {"counts": [1], "edges": [0, float("inf")]}, "that ascend"),
        ("histogram", {"counts": [-1], "edges": [0, 1]}, "counts from 0"),
        ("histogram", {"counts": "a", "edges": [0, 1]}, "finite numbers"),
        ("text", {"text": 5}, "is not text"),
        ("text", [], "it is list"),
        ("film", {}, "none of image, table"),
    ],
)
def test_a_document_that_cannot_be_shown_is_refused_with_the_reason(
    kind: str, document: Any, why: str
) -> None:
    with pytest.raises(TrainmasterError, match=why):
        value(kind, document=document)


@pytest.mark.parametrize(
    "changes",
    [{"index": -1}, {"index": 1_000}, {"step": 1 << 63}, {"at_ms": -1}, {"key": " "}, {"key": "k" * 251}],
)
def test_a_place_that_cannot_be_kept_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(TrainmasterError):
        value("text", document={"text": "a"}, **changes)
