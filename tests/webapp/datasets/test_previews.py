"""What a person sees of a file, by its kind, and what of a hostile one."""

import io
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from django.conf import LazySettings
from django.test import Client
from pyarrow import ipc, parquet

from tests.webapp.conftest import Cast
from tests.webapp.datasets.registering import run
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.artifacts import services as artifacts
from webapp.datasets import arrow_files, services
from webapp.datasets.previews import IMAGE_BYTES, Preview, preview

Browser = Callable[[User], Client]
Show = Callable[[str, bytes], Preview]
PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)
LABELS = b"file,label\n00.bin,cat\n"
NUMBERS = [float(number) for number in range(1, 100)]
ROWS = pa.table({"number": [*NUMBERS, None], "label": ["cat", "dog"] * 50})


@pytest.fixture
def show(cast: Cast) -> Show:
    """The preview of a file with this path and content in a dataset of its own."""

    def shown(path: str, content: bytes) -> Preview:
        alice = actor_of(cast.owner)
        upload = artifacts.start_upload(alice, "vision", "dataset", "files")
        artifacts.receive_file(alice, upload.id, path, io.BytesIO(content))
        manifest = artifacts.complete_upload(alice, upload.id).id
        return preview(services.add_snapshot(alice, "vision", "files", manifest, "train"), path)

    return shown


def as_parquet(**options: object) -> bytes:
    file = io.BytesIO()
    parquet.write_table(ROWS, file, row_group_size=50, **options)
    return file.getvalue()


def as_arrow(make: Callable[..., object] = ipc.new_file, **options: object) -> bytes:
    file = io.BytesIO()
    with make(file, ROWS.schema, **options) as writer:  # type: ignore[attr-defined]
        writer.write_table(ROWS, max_chunksize=50)
    return file.getvalue()


def test_parquet_shows_rows_and_histograms_of_its_first_rows_and_statistics_of_all(show: Show) -> None:
    seen = show("rows.parquet", as_parquet())
    number, label = seen.columns
    assert (number.types, number.nulls, number.lowest, number.highest) == (("double",), 1, "1.0", "99.0")
    assert sum(number.histogram) == 50
    assert (label.types, label.top) == (("string",), (("cat", 25), ("dog", 25)))
    assert (seen.rows[0], seen.rows_in_all) == (("1.0", "cat"), 100)


@pytest.mark.parametrize(
    "content",
    [as_arrow(), as_arrow(ipc.new_stream), as_arrow(options=ipc.IpcWriteOptions(compression="zstd"))],
    ids=["file", "stream", "compressed"],
)
def test_arrow_shows_its_schema_and_first_batch(show: Show, content: bytes) -> None:
    seen = show("rows.arrow", content)
    number, label = seen.columns
    assert (number.types, number.highest, sum(number.histogram)) == (("double",), "50.0", 50)
    assert (label.types, label.top) == (("string",), (("cat", 25), ("dog", 25)))
    assert seen.rows[1] == ("2.0", "dog")


def test_arrow_whose_first_batch_is_too_large_shows_its_schema(
    show: Show, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow_files, "READ_BYTES", 400)
    seen = show("rows.arrow", as_arrow())
    assert [(column.name, column.types) for column in seen.columns] == [
        ("number", ("double",)),
        ("label", ("string",)),
    ]
    assert seen.rows == ()
    assert "too large" in seen.note


def test_parquet_whose_columns_are_too_large_shows_its_statistics(
    show: Show, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow_files, "READ_BYTES", 10)
    seen = show("rows.parquet", as_parquet())
    assert [column.nulls for column in seen.columns] == [1, 0]
    assert (seen.rows, seen.rows_in_all) == ((), 100)


def test_a_page_that_becomes_larger_than_the_memory_allowed_shows_the_statistics(
    show: Show, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow_files, "MEMORY_BYTES", 800 * 2**20)
    zeros = pa.table({"zeros": [bytes(2**20)] * 600})
    file = io.BytesIO()
    parquet.write_table(zeros, file, compression="zstd", use_dictionary=False, write_statistics=False)
    assert file.tell() < arrow_files.READ_BYTES
    seen = show("bomb.parquet", file.getvalue())
    assert (seen.kind, seen.rows, seen.rows_in_all) == ("table", (), 600)


@pytest.mark.parametrize("path", ["x.parquet", "x.arrow", "x.feather"])
def test_a_file_that_is_not_what_its_name_says_is_told_so(show: Show, path: str) -> None:
    assert show(path, b"ARROW1\0\0" + bytes(100)).kind == "none"


def test_an_image_is_shown_as_what_it_begins_like(cast: Cast, show: Show, browser: Browser) -> None:
    assert show("cat.txt", PNG).image.startswith("data:image/png;base64,")
    page = browser(cast.member).get("/datasets/vision/files/?path=cat.txt").content.decode()
    assert '<img class="body preview-image" src="data:image/png;base64,' in page
    assert 'alt="The image cat.txt"' in page


def test_a_large_image_and_a_picture_that_may_hold_scripts_are_not_drawn(show: Show) -> None:
    large = show("large.png", PNG + bytes(IMAGE_BYTES))
    assert (large.kind, large.image) == ("none", "")
    assert "4 MiB" in large.note
    assert show("drawn.svg", b"<svg onload='alert(1)'/>").kind == "text"


def test_the_page_has_histograms_in_any_language(
    cast: Cast, show: Show, browser: Browser, settings: LazySettings
) -> None:
    settings.LANGUAGE_CODE = "de"
    show("rows.csv", b"n\n" + b"".join(b"%d\n" % (number % 7) for number in range(60)))
    page = browser(cast.member).get("/datasets/vision/files/?path=rows.csv").content.decode()
    assert 'aria-label="histogram of n in steps: 9, 0, 0, 9' in page
    assert 'height="88.9"' in page


def test_a_source_is_read_where_it_lies_also_where_its_bytes_were_uploaded_under_another_name(
    cast: Cast, show: Show, tmp_path: Path, settings: LazySettings
) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "labels.csv").write_bytes(LABELS)
    settings.SOURCE_PREFIXES = [tmp_path.as_uri()]
    uploaded = show("labels.csv", LABELS)
    place = (tmp_path / "shared").as_uri()
    row = run(services.register_source(actor_of(cast.owner), "vision", "in place", place, "train"))
    assert preview(row, "labels.csv") == uploaded
