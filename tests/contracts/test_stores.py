"""One suite for every store: see `trainmaster.store.port.Store` for the promises."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from platform_core.errors import TrainmasterError
from tests.contracts.stores import Written
from trainmaster.store import Entry, open_store

DATA = bytes(range(256)) * 20_000  # 5 MB: several blocks


def test_a_range_is_exactly_the_bytes_asked_for(readable: Written) -> None:
    readable.put("a/b c/ü.bin", DATA)
    store = readable.store
    assert store.read_range("a/b c/ü.bin", 0, len(DATA)) == DATA
    assert store.read_range("a/b c/ü.bin", 3, 5) == DATA[3:8]
    assert store.read_range("a/b c/ü.bin", len(DATA) - 1, 1) == DATA[-1:]
    assert store.read_range("a/b c/ü.bin", 7, 0) == b""
    assert b"".join(store.stream_range("a/b c/ü.bin", 100, 3_000_000)) == DATA[100:3_000_100]


def test_a_stream_comes_in_blocks_not_at_once(readable: Written) -> None:
    readable.put("big", DATA)
    assert max(len(block) for block in readable.store.stream_range("big", 0, len(DATA))) <= 1 << 20


def test_size_exists_and_etag(readable: Written) -> None:
    readable.put("x", DATA)
    store = readable.store
    assert store.size("x") == len(DATA)
    assert store.exists("x")
    assert not store.exists("y")
    assert store.etag("x") == store.etag("x") != ""
    assert store.read_range("x", 0, 4, store.etag("x")) == DATA[:4]


@pytest.mark.parametrize(("offset", "size"), [(2, 2), (3, 1), (100, 5), (0, 4)])
def test_a_range_beyond_the_end_is_an_error_not_a_short_answer(
    readable: Written, offset: int, size: int
) -> None:
    readable.put("x", b"123")
    with pytest.raises(TrainmasterError) as refused:
        readable.store.read_range("x", offset, size)
    assert refused.value.code == "source_unavailable"


@pytest.mark.parametrize("call", ["read_range", "size", "etag"])
def test_what_is_missing_is_named_with_its_reason(readable: Written, call: str) -> None:
    readable.put("x", b"123")
    arguments = (0, 1) if call == "read_range" else ()
    with pytest.raises(TrainmasterError, match=r"no/such cannot be read: there is no such") as refused:
        getattr(readable.store, call)("no/such", *arguments)
    assert refused.value.code == "source_unavailable"


@pytest.mark.parametrize("path", ["../up", "/etc/passwd", "a/../../b", ""])
def test_paths_outside_are_refused(readable: Written, path: str) -> None:
    with pytest.raises(TrainmasterError) as refused:
        readable.store.read_range(path, 0, 1)
    assert refused.value.code == "request_invalid"


def test_a_write_replaces_the_whole_content(writable: Written) -> None:
    store = writable.store
    assert store.write("d/x", [DATA, b"", DATA]) == 2 * len(DATA)
    before = store.etag("d/x")
    assert store.write("d/x", [b"short"]) == 5
    assert store.read_range("d/x", 0, 5) == b"short"
    assert store.size("d/x") == 5
    assert store.etag("d/x") != before
    assert store.write("empty", []) == 0
    assert store.size("empty") == 0


def test_a_write_larger_than_one_part(writable: Written) -> None:
    blocks = [DATA] * 8  # 41 MB: three parts
    assert writable.store.write("large", blocks, size=8 * len(DATA)) == 8 * len(DATA)
    assert writable.store.read_range("large", 7 * len(DATA), len(DATA)) == DATA


@pytest.mark.parametrize("blocks", [1, 8])
def test_a_write_that_dies_in_the_middle_leaves_the_old_content_and_nothing_else(
    writable: Written, blocks: int
) -> None:
    def dying() -> Iterator[bytes]:
        for _ in range(blocks):
            yield DATA
        raise ConnectionError("the browser went away")

    store = writable.store
    store.write("x", [b"old"])
    with pytest.raises((ConnectionError, TrainmasterError)):
        store.write("x", dying())
    assert store.read_range("x", 0, 3) == b"old"
    assert list(store.list()) == [Entry("x", 3)]


def test_lists_in_order_below_a_prefix(writable: Written) -> None:
    for path in ("b", "a/2", "a/1", "ab"):
        writable.store.write(path, [path.encode()])
    assert [entry.path for entry in writable.store.list()] == ["a/1", "a/2", "ab", "b"]
    assert list(writable.store.list("a/")) == [Entry("a/1", 3), Entry("a/2", 3)]
    assert list(writable.store.list("none")) == []


def test_a_moved_file_is_there_under_its_new_path_alone(writable: Written) -> None:
    large = bytes(range(256)) * (1 << 17)  # several parts of an upload to S3
    for path, data in {"in/x": large, "to/x": b"replaced", "in/y": b""}.items():
        writable.store.write(path, [data])
    etag = writable.store.etag("in/x")
    writable.store.move("in/x", "to/x")
    writable.store.move("in/y", "to/deep er/y")
    assert list(writable.store.list()) == [Entry("to/deep er/y", 0), Entry("to/x", len(large))]
    assert writable.store.read_range("to/x", 0, len(large)) == large
    assert writable.store.etag("to/x") == etag
    with pytest.raises(TrainmasterError, match="there is no such") as refused:
        writable.store.move("in/x", "to/z")
    assert refused.value.numbers["missing"]


def test_deleting_twice_is_no_error(writable: Written) -> None:
    writable.store.write("x", [b"1"])
    writable.store.delete("x")
    writable.store.delete("x")
    assert not writable.store.exists("x")


def test_a_web_server_can_only_be_read(web: tuple[str, object]) -> None:
    store = open_store(web[0])
    for call in (
        lambda: store.write("x", [b""]),
        lambda: store.delete("x"),
        lambda: store.move("x", "y"),
        lambda: list(store.list()),
    ):
        with pytest.raises(TrainmasterError, match="can only be read"):
            call()


@pytest.mark.parametrize("url", ["/srv/models", "ftp://x/y", "file://host/x", "s3:///x", ""])
def test_a_url_that_is_no_store_is_refused_with_a_sentence(url: str) -> None:
    with pytest.raises(TrainmasterError) as refused:
        open_store(url)
    assert refused.value.code == "request_invalid"


def test_a_server_that_is_not_there_is_named_without_its_password() -> None:
    with pytest.raises(TrainmasterError, match=r"http://127\.0\.0\.1:1/x cannot be read") as refused:
        open_store("http://alice:secret@127.0.0.1:1").read_range("x", 0, 1)
    assert "secret" not in refused.value.sentence


def test_an_s3_server_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with pytest.raises(TrainmasterError, match="s3://models/x cannot be read: Could not connect"):
        open_store("s3://models").read_range("x", 0, 1)


def test_a_bucket_that_is_not_there(s3: str) -> None:
    with pytest.raises(TrainmasterError, match="there is no such bucket"):
        open_store("s3://elsewhere").read_range("x", 0, 1)


@pytest.mark.parametrize("scheme", ["http", "s3"])
def test_a_range_that_stalls_fails_after_the_silence_that_was_set_with_what_came_before(
    scheme: str, stalling: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", stalling)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    store = open_store(stalling if scheme == "http" else "s3://models", silence=0.3, attempts=1)
    blocks: list[bytes] = []
    with pytest.raises(TrainmasterError, match="cannot be read"):
        blocks.extend(store.stream_range("x", 0, 400_000, block=50_000))
    assert len(b"".join(blocks)) >= 150_000
