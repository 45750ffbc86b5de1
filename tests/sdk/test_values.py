"""Images, tables, histograms, texts and sounds as a script makes them."""

import io
import json
import math
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import PIL.Image
import pytest
import torch

from platform_core.experiments.rich_values import MAX_FILE_BYTES, checked
from tests.sdk.scripts import events
from trainmaster.run import Run
from trainmaster.values import (
    MOST_DOCUMENT_BYTES,
    MOST_FILE_BYTES,
    Audio,
    Encoded,
    Histogram,
    Html,
    Image,
    RichValue,
    Table,
    Text,
    ValueRefused,
)

Make = Callable[..., Run]


def kept(value: Encoded) -> Any:
    """As the platform checks it."""
    return checked(
        key="k", step=1, index=0, kind=value.kind, at_ms=1, document=value.document, data=value.data,
        caption=value.caption,
    )  # fmt: skip


@pytest.mark.parametrize(
    "array",
    [
        numpy.zeros((2, 3)),
        numpy.full((2, 3, 3), 255, "uint8"),
        numpy.zeros((2, 3, 4), "float32"),
        torch.rand(3, 5, 7, requires_grad=True),
        torch.ones(5, 7, dtype=torch.bool),
    ],
)
def test_an_array_becomes_a_png_that_the_platform_takes(array: Any) -> None:
    encoded = Image(array, caption="a digit").encode()
    assert (encoded.suffix, kept(encoded).media_type) == (".png", "image/png")


def test_the_pixels_of_an_array_are_those_of_the_png() -> None:
    array = numpy.arange(24, dtype="uint8").reshape(2, 4, 3)
    assert numpy.array_equal(numpy.asarray(PIL.Image.open(io.BytesIO(Image(array).encode().data))), array)
    assert Image(PIL.Image.fromarray(array)).encode().suffix == ".png"


@pytest.mark.parametrize(
    "odd", [numpy.zeros(3), numpy.zeros((2, 2, 7)), numpy.zeros((0, 2)), "missing.png", 5]
)
def test_what_is_no_image_is_refused_with_a_sentence(odd: Any) -> None:
    with pytest.raises(ValueRefused, match=r"image|cannot be read"):
        Image(odd).encode()


def test_a_file_is_taken_for_what_its_first_bytes_say(tmp_path: Path) -> None:
    page = tmp_path / "page.png"
    page.write_bytes(b"<html>")
    with pytest.raises(ValueRefused, match="not a PNG"):
        Image(page).encode()
    photo = tmp_path / "photo"
    photo.write_bytes(b"\xff\xd8\xff\xe0...")
    assert Image(str(photo)).encode().suffix == ".jpg"


def test_a_sound_is_a_wav_of_its_frames() -> None:
    encoded = Audio(numpy.array([[0.0, 1.0], [-1.0, 2.0]]), sample_rate=8_000).encode()
    assert kept(encoded).media_type == "audio/wav"
    with wave.open(io.BytesIO(encoded.data)) as reader:
        assert (reader.getnchannels(), reader.getframerate(), reader.getnframes()) == (2, 8_000, 2)
        assert numpy.frombuffer(reader.readframes(2), "<i2").tolist() == [0, 32767, -32767, 32767]


def test_a_table_takes_numbers_and_texts_of_any_library() -> None:
    rows = [[numpy.float32(0.5), torch.tensor(3), None, True, Path("/x")], [math.nan, 1, "a", False, {}]]
    document = Table("abcde", rows).encode().document
    assert document == {
        "columns": ["a", "b", "c", "d", "e"],
        "rows": [[0.5, 3, None, True, "/x"], ["nan", 1, "a", False, "{}"]],
    }
    with pytest.raises(ValueRefused, match="row 1 of the table has 1 cells; there are 2 columns"):
        Table(["a", "b"], [[1, 2], [1]]).encode()


def test_a_histogram_counts_every_value_once() -> None:
    encoded = Histogram(torch.tensor([0.0, 1.0, 1.0, 4.0, math.nan, math.inf]), bins=4).encode()
    assert encoded.document == {"counts": [1, 2, 0, 1], "edges": [0.0, 1.0, 2.0, 3.0, 4.0], "non_finite": 2}
    assert kept(encoded)
    assert kept(Histogram([5, 5]).encode()).document["counts"].count(0) == 63
    assert kept(Histogram([]).encode())
    assert Histogram(counts=[3], edges=[0, 1]).encode().document == {
        "counts": [3], "edges": [0.0, 1.0], "non_finite": 0,
    }  # fmt: skip
    for odd in (
        Histogram(),
        Histogram(counts=[1], edges=[0]),
        Histogram(counts=[1], edges=[1, 0]),
        Histogram("ab"),
    ):
        with pytest.raises(ValueRefused):
            odd.encode()


@pytest.mark.parametrize(
    "value",
    [Text("x" * MOST_DOCUMENT_BYTES), Table(["a"], [["x" * 100]] * 2000), Histogram(counts=[1] * 99_999)],
)
def test_what_is_too_large_is_refused_with_the_limit(value: RichValue) -> None:
    with pytest.raises(ValueRefused):
        value.encode()


def test_the_limits_of_the_sdk_are_not_above_those_of_the_platform() -> None:
    assert MOST_FILE_BYTES <= MAX_FILE_BYTES


def test_values_are_lines_and_files_of_the_run(
    on_a_node: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = on_a_node()
    run.log(
        3,
        loss=1.0,
        notes=Text("hello"),
        samples=[Image(numpy.zeros((2, 2)), caption="zero"), Image("no.png")],
    )
    run.log(4, page=Html("<b>"))
    run.log(5, page=Html("<b>"))
    spool = tmp_path / "attempt" / "spool" / "rank-0.jsonl"
    assert [event["values"] for event in events(spool, "metrics")] == [{"loss": 1.0}]
    text, image = events(spool, "value")
    assert (text["type"], text["document"], text["index"]) == ("text", {"text": "hello"}, 0)
    assert (image["type"], image["key"], image["step"], image["caption"]) == ("image", "samples", 3, "zero")
    assert (tmp_path / "attempt" / image["path"]).read_bytes().startswith(b"\x89PNG")
    warned = capsys.readouterr().err
    assert warned.count("HTML is not shown") == 1
    assert warned.count("no.png cannot be read") == 1


def test_a_line_of_the_largest_document_fits_into_the_spool(on_a_node: Make, tmp_path: Path) -> None:
    on_a_node().log(1, notes=Text("\N{PILE OF POO}" * (MOST_DOCUMENT_BYTES // 4 - 10)))
    [line] = (tmp_path / "attempt" / "spool" / "rank-0.jsonl").read_bytes().splitlines()
    assert len(line) < 256 * 1024 - 1
    assert json.loads(line)["type"] == "text"


def test_tags_and_a_dataset_are_noted(on_a_laptop: Make, tmp_path: Path) -> None:
    run = on_a_laptop()
    run.set_tags({"stage": "try", "try": 2})
    run.use_dataset("vision/digits")
    run.log(7, loss=0.5)
    assert run.summary == {"loss": 0.5}
    run.summary["best"] = 0.25
    told = events(tmp_path / "trainmaster-runs" / "train-1" / "events.jsonl")
    assert [event["kind"] for event in told] == ["tags", "lineage", "metrics", "metrics"]
    assert told[0]["tags"] == {"stage": "try", "try": "2"}
    assert told[1]["lineage"] == {"dataset": "vision/digits"}
    assert (told[3]["step"], told[3]["values"]) == (7, {"best": 0.25})
