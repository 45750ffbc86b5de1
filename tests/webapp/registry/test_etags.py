"""A version keeps what the store called its files, and every order to read them carries it."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings

from tests.support.s3 import s3, s3_client, s3_server
from trainmaster.store import open_store
from webapp.accounts.models import Team, User
from webapp.accounts.queries import actor_of
from webapp.artifacts import services as artifacts
from webapp.deployments import services as deploying
from webapp.nodes.models import Node
from webapp.registry import services
from webapp.registry.models import ModelVersion
from webapp.rpc.wanted import wanted_states

__all__ = ["s3", "s3_client", "s3_server"]


@pytest.fixture
def source(s3: str, settings: LazySettings) -> str:
    store = open_store(s3)
    store.write("v/b.bin", [b"weights"])
    store.write("v/a.json", [b"{}"])
    settings.SOURCE_PREFIXES = [s3]
    return f"{s3}/v"


@pytest.fixture
def register(vision: Team, owner: User) -> Callable[[str], ModelVersion]:
    def register(source: str) -> ModelVersion:
        version = services.register(actor_of(owner), "vision", "bytelm", source_url=source)
        services.read_source(version.id)
        version.refresh_from_db()
        return version

    return register


def etags_of(url: str) -> list[str]:
    store = open_store(url)
    return [store.etag("a.json"), store.etag("b.bin")]


def ordered(node: Node) -> list[list[str]]:
    """What the orders to a node say, newest first."""
    (wanted,) = wanted_states([node.id])
    return [list(each.artifact.etags) for each in wanted.deployments]


def test_what_the_store_said_at_the_registration_stands_in_every_order(
    source: str, register: Callable[[str], ModelVersion], owner: User, node: Callable[..., Node]
) -> None:
    host, then = node("node-0"), etags_of(source)
    register(source)
    open_store(source).write("b.bin", [b"another"])
    deploying.create(actor_of(owner), "vision/bytelm", 1)
    assert ordered(host) == [then]
    assert then != etags_of(source)


def test_another_place_of_the_same_bytes_has_its_own(
    source: str, register: Callable[[str], ModelVersion], owner: User, node: Callable[..., Node]
) -> None:
    host = node("node-0")
    register(source)
    deploying.create(actor_of(owner), "vision/bytelm", 1, source_url=f"{source}/mirror")
    assert ordered(host) == [[]]


def test_the_same_bytes_registered_anew_have_what_the_store_says_now(
    source: str, register: Callable[[str], ModelVersion], owner: User, node: Callable[..., Node],
    s3_client: Any,
) -> None:  # fmt: skip
    host = node("node-0")
    first = register(source)
    deploying.create(actor_of(owner), "vision/bytelm", 1)
    bucket, _, key = f"{source}/b.bin".removeprefix("s3://").partition("/")
    in_parts = s3_client.create_multipart_upload(Bucket=bucket, Key=key)
    where = {"Bucket": bucket, "Key": key, "UploadId": in_parts["UploadId"]}
    part = s3_client.upload_part(**where, PartNumber=1, Body=b"weights")
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    s3_client.complete_multipart_upload(**where, MultipartUpload=parts)
    before = ordered(host)
    second = register(source)
    assert second.manifest_id == first.manifest_id
    assert before != ordered(host) == [etags_of(source)]


def test_an_upload_is_known_by_what_the_store_called_its_files(
    s3: str, settings: LazySettings, owner: User, vision: Team
) -> None:
    settings.STORE_URL = s3
    actor = actor_of(owner)
    upload = artifacts.start_upload(actor, "vision", "model", "bytelm")
    for path, data in (("b.bin", b"weights"), ("a.json", b"{}")):
        artifacts.receive_file(actor, upload.id, path, io.BytesIO(data))
    manifest = artifacts.complete_upload(actor, upload.id)
    assert manifest.etags == etags_of(f"{s3}/model/{upload.id}")
    assert all(manifest.etags)


def test_files_on_a_disk_have_none_as_a_path_may_be_another_disk_elsewhere(
    tmp_path: Path, settings: LazySettings, register: Callable[[str], ModelVersion]
) -> None:
    (tmp_path / "weights.bin").write_bytes(b"weights")
    settings.SOURCE_PREFIXES = [tmp_path.as_uri()]
    version = register(tmp_path.as_uri())
    assert version.manifest is not None
    assert version.manifest.etags == []
