"""A file that is another than the one that was registered is told as that, not read as if it were the old one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from platform_core.errors import TrainmasterError
from tests.contracts.conftest import serving
from tests.contracts.stores import ConditionHandler, RangeAndEtagHandler, RangeHandler, Written
from tests.support.s3 import keep_versions
from trainmaster.store import open_store
from trainmaster.store.copying import describe, fetch, lasting_etag

OLD, NEW = b"the old weights", b"the new weights"
HANDLERS = {"time": RangeHandler, "etag": RangeAndEtagHandler, "conditions": ConditionHandler}


@pytest.fixture(params=["file", "s3", *HANDLERS])
def written(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Written]:
    """Each kind of store, and web servers that tell of a change in their several ways."""
    folder = tmp_path / "store"
    clock = iter(range(1_700_000_000, 1_800_000_000, 10))

    def put(path: str, data: bytes) -> None:
        (folder / path).write_bytes(data)
        os.utime(folder / path, (now := next(clock), now))

    if request.param == "s3":
        store = open_store(request.getfixturevalue("s3"))
        yield Written(store, lambda path, data: store.write(path, [data]))
    elif request.param == "file":
        folder.mkdir()
        yield Written(open_store(folder.as_uri()), put)
    else:
        with serving(folder, HANDLERS[request.param]) as url:
            yield Written(open_store(url), put)


def test_is_an_error_with_what_it_was_and_what_it_is(written: Written) -> None:
    written.put("x", OLD)
    etag = written.store.etag("x")
    assert written.store.read_range("x", 4, 3, etag) == b"old"
    written.put("x", NEW)
    with pytest.raises(TrainmasterError) as refused:
        written.store.read_range("x", 4, 3, etag)
    now = written.store.etag("x")
    assert (refused.value.code, refused.value.numbers["then"]) == ("source_changed", etag)
    assert (refused.value.numbers["now"], str(refused.value.numbers["source"])[-2:]) == (now, "/x")
    assert etag != now
    assert written.store.read_range("x", 4, 3, now) == b"new"


def test_is_not_fetched_by_the_manifest_of_the_other(written: Written, tmp_path: Path) -> None:
    written.put("x", OLD)
    found = describe(f"{written.store.url}/x", "model")
    lasting = lasting_etag(written.store, "x")
    assert found.etags == {"x": lasting}
    written.put("x", NEW)
    with pytest.raises(TrainmasterError) as refused:
        fetch(found.manifest, found.source_url, tmp_path / "out", etags=found.etags)
    if lasting:
        assert refused.value.sentence.startswith(
            f"{written.store.url}/x was changed since it was registered:"
        )
    else:
        assert refused.value.code == "verification_failed", "the same path may be another disk elsewhere"


def test_is_still_there_where_the_bucket_keeps_versions(s3: str, s3_client: Any) -> None:
    keep_versions(s3_client, s3)
    store = open_store(s3)
    store.write("x", [OLD])
    etag = store.etag("x")
    store.write("x", [NEW])
    assert store.read_range("x", 4, 3, etag) == b"old"
    store.delete("x")
    assert store.read_range("x", 4, 3, etag) == b"old"


def test_is_an_error_when_its_version_was_deleted(s3: str, s3_client: Any) -> None:
    keep_versions(s3_client, s3)
    store = open_store(s3)
    store.write("x", [OLD])
    etag = store.etag("x")
    store.write("x", [NEW])
    bucket, _, prefix = s3.removeprefix("s3://").partition("/")
    s3_client.delete_object(Bucket=bucket, Key=f"{prefix}/x", VersionId=etag.partition("=")[2])
    with pytest.raises(TrainmasterError) as refused:
        store.read_range("x", 4, 3, etag)
    assert (refused.value.code, refused.value.numbers["now"]) == ("source_changed", store.etag("x"))


def test_a_deleted_object_of_a_bucket_without_versions_is_not_there(s3: str) -> None:
    store = open_store(s3)
    store.write("x", [OLD])
    etag = store.etag("x")
    store.delete("x")
    with pytest.raises(TrainmasterError, match="there is no such object"):
        store.read_range("x", 4, 3, etag)
