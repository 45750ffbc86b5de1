"""What a person sees of a file, by its kind, and what of a hostile one."""

import io
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from django.conf import LazySettings
from django.test import Client
from pyarrow import ipc, parquet
from rest_framework.test import APIClient

from platform_core.distribution.content.manifest import FileEntry
from tests.webapp.conftest import Cast
from tests.webapp.datasets.registering import run
from trainmaster.reader.pool import Pool, Stopped, Unreadable
from trainmaster.store import open_store
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.artifacts import services as artifacts
from webapp.datasets import arrow_files, previews, services
from webapp.datasets.models import DatasetSnapshot
from webapp.datasets.previews import IMAGE_BYTES, Preview, preview

Browser = Callable[[User], Client]
Show = Callable[[str, bytes], Preview]
ABORTS = Path(__file__).parent / "aborts_footer.parquet"
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
        return preview(services.add_snapshot(alice, "vision", "files", manifest, "train"), path, "alice")

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
    monkeypatch.setattr(arrow_files, "read", Pool(memory_bytes=800 * 2**20).read)
    zeros = pa.table({"zeros": [bytes(2**20)] * 600})
    file = io.BytesIO()
    parquet.write_table(zeros, file, compression="zstd", use_dictionary=False, write_statistics=False)
    assert file.tell() < arrow_files.READ_BYTES
    seen = show("bomb.parquet", file.getvalue())
    assert (seen.kind, seen.rows, seen.rows_in_all) == ("table", (), 600)


@pytest.mark.parametrize("path", ["x.parquet", "x.arrow", "x.feather"])
def test_a_file_that_is_not_what_its_name_says_is_told_so(show: Show, path: str) -> None:
    assert show(path, b"ARROW1\0\0" + bytes(100)).kind == "none"


def test_a_file_that_ends_its_reader_is_refused_in_a_sentence(
    cast: Cast, show: Show, api: Callable[[User], APIClient], browser: Browser
) -> None:
    path = "a.parquet"
    with pytest.raises(Stopped):
        show(path, ABORTS.read_bytes())
    program = api(cast.member)
    snapshot = DatasetSnapshot.objects.get().id
    answer = program.get(f"/api/v1/dataset-snapshots/{snapshot}/preview?path={path}")
    assert (answer.status_code, answer.json()["code"]) == (422, "file_unreadable")
    assert answer.json()["detail"].startswith(
        f"The file {path} cannot be read: it ends the process that reads"
    )
    page = browser(cast.member).get(f"/datasets/vision/files/?path={path}")
    assert page.status_code == 200
    assert "cannot be read" in page.content.decode()


@pytest.mark.parametrize(
    ("kind", "content"),
    [("parquet", as_parquet()), ("arrow", as_arrow()), ("arrow", as_arrow(ipc.new_stream))],
    ids=["parquet", "arrow file", "arrow stream"],
)
def test_no_damage_of_a_file_is_more_than_a_preview_or_a_refusal(
    tmp_path: Path, kind: str, content: bytes
) -> None:
    """1,000 of each, the same each time. A Parquet file is changed where its footer lies."""
    random = Random(kind)
    first = len(content) - int.from_bytes(content[-8:-4], "little") - 8 if kind == "parquet" else 0
    store = open_store(tmp_path.as_uri())
    for _ in range(1000):
        damaged = bytearray(content)
        for _ in range(random.randint(1, 2)):
            damaged[random.randrange(first, len(content) - (8 if kind == "parquet" else 0))] = (
                random.randrange(256)
            )
        (tmp_path / "file").write_bytes(damaged)
        with suppress(Stopped):
            seen = previews.read(store, "file", FileEntry(f"a.{kind}", len(damaged), ""))
            assert json.loads(json.dumps(previews.as_mapping(seen)))["path"] == f"a.{kind}"


@pytest.mark.parametrize("begin", [-1, 10**15])
def test_a_footer_that_points_outside_of_its_file_is_refused(tmp_path: Path, begin: int) -> None:
    (tmp_path / "file").write_bytes(bytes(100))
    with pytest.raises(Unreadable, match="points outside"):
        arrow_files.first_rows(open_store(tmp_path.as_uri()), "file", 100, "parquet", [(begin, 8)], what="It")


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
    assert preview(row, "labels.csv", "alice") == uploaded
