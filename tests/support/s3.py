"""A real HTTP server that speaks S3, for tests that import these fixtures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def s3_client(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """boto3 finds the server as it would in production."""
    boto3 = pytest.importorskip("boto3")
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    return boto3.session.Session().client("s3")


@pytest.fixture
def s3(s3_client: Any) -> str:
    """The URL of a prefix in a new bucket."""
    bucket = f"models-{len(s3_client.list_buckets()['Buckets'])}"
    s3_client.create_bucket(Bucket=bucket)
    return f"s3://{bucket}/team a"


@pytest.fixture
def gs(s3: str, s3_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The same by the interface of Google Cloud Storage, with keys of its own."""
    monkeypatch.setenv("GS_ENDPOINT_URL", s3_server)
    monkeypatch.setenv("GS_ACCESS_KEY_ID", "google")
    monkeypatch.setenv("GS_SECRET_ACCESS_KEY", "google")
    return s3.replace("s3://", "gs://")


def keep_versions(client: Any, url: str) -> None:
    """From now on what is written under this URL replaces nothing."""
    bucket = url.removeprefix("s3://").partition("/")[0]
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
