"""A bucket, or a prefix of one, as a store.

Credentials, region and endpoint come from where boto3 looks for them (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL,
profiles, instance roles); Trainmaster has no settings of its own for them. A bucket of Google Cloud Storage, gs://, is
asked by its S3-compatible interface with HMAC keys, which are in GS_ACCESS_KEY_ID and GS_SECRET_ACCESS_KEY.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import boto3
from boto3.exceptions import Boto3Error
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from platform_core.errors import TrainmasterError
from trainmaster.environment import google_environment
from trainmaster.store.address import parse
from trainmaster.store.port import BLOCK, SILENCE_SECONDS, Entry, changed, checked, unavailable, whole

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import GetObjectOutputTypeDef

_PART = 16 << 20
_MOST_PARTS = 10_000
_VERSION = "?versionId="  # of an etag, as in the URL of such a version
_SESSION_LOCK = Lock()


@cache
def _session() -> boto3.session.Session:
    """One for the process, as it parses boto3's description of S3. Clients are safe in threads, it is not."""
    return boto3.session.Session()


def _place_of(scheme: str) -> dict[str, Any]:
    """Where boto3 is to ask and with which keys, if not where it looks by itself."""
    if scheme != "gs":
        return {}
    google = google_environment()
    if not google.key or not google.secret:
        why = "GS_ACCESS_KEY_ID and GS_SECRET_ACCESS_KEY are not both set; they are an HMAC key of a service account"
        raise TrainmasterError("request_invalid", what="reading gs://", why=why)
    return {
        "endpoint_url": google.endpoint, "region_name": "auto",
        "aws_access_key_id": google.key, "aws_secret_access_key": google.secret,
    }  # fmt: skip


class S3Store:
    """Keeps the promises of `Store`: an object appears when its upload completes, a failed one is aborted.

    An etag has the version's id behind it where the bucket keeps versions: then it can be read after it was replaced.
    """

    same_everywhere = True

    def __init__(self, url: str, silence: float = SILENCE_SECONDS, attempts: int = 3) -> None:
        address = parse(url)
        self.url = url.rstrip("/")
        self._bucket = address.host
        self._prefix = address.path
        self._scheme = address.scheme
        # Google knows none of the checksums that boto3 adds by itself.
        sums: Any = {
            "request_checksum_calculation": "when_required",
            "response_checksum_validation": "when_required",
        }
        config = Config(
            **(sums if address.scheme == "gs" else {}),
            signature_version="s3v4",
            retries={"mode": "standard", "total_max_attempts": attempts},
            connect_timeout=min(5, silence), read_timeout=silence, max_pool_connections=32,
        )  # fmt: skip
        with _clear_errors(self.url), _SESSION_LOCK:
            self._client: S3Client = _session().client("s3", config=config, **_place_of(address.scheme))

    def read_range(self, path: str, offset: int, size: int, etag: str = "") -> bytes:
        return b"".join(self.stream_range(path, offset, size, etag))

    def stream_range(
        self, path: str, offset: int, size: int, etag: str = "", block: int = BLOCK
    ) -> Iterator[bytes]:
        key = self._key(path)
        if size == 0:
            return
        with _clear_errors(self._shown(key)):
            answer = self._get(key, f"bytes={offset}-{offset + size - 1}", etag)
            with closing(answer["Body"]) as body:
                yield from whole(body.iter_chunks(block), offset, size, self._shown(key))

    def write(self, path: str, stream: Iterable[bytes], size: int | None = None) -> int:
        key = self._key(path)
        reader = _Reader(stream)
        with _clear_errors(self._shown(key)):
            self._client.upload_fileobj(reader, self._bucket, key, Config=_cut(size or 0))  # type: ignore[arg-type]
        return reader.length

    def exists(self, path: str) -> bool:
        key = self._key(path)
        try:
            with _clear_errors(self._shown(key)):
                self._client.head_object(Bucket=self._bucket, Key=key)
        except TrainmasterError as error:
            if error.numbers.get("missing"):
                return False
            raise
        return True

    def size(self, path: str) -> int:
        key = self._key(path)
        with _clear_errors(self._shown(key)):
            return self._client.head_object(Bucket=self._bucket, Key=key)["ContentLength"]

    def etag(self, path: str) -> str:
        key = self._key(path)
        with _clear_errors(self._shown(key)):
            return _etag(self._client.head_object(Bucket=self._bucket, Key=key))

    def real(self, path: str) -> str:
        return f"{self.url}/{quote(checked(path))}"

    def list(self, prefix: str = "") -> Iterator[Entry]:
        base = f"{self._prefix}/" if self._prefix else ""
        with _clear_errors(self.url):
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=base + prefix
            )
            for page in pages:
                for item in page.get("Contents", []):
                    if not item["Key"].endswith("/"):  # consoles make such keys to show empty folders
                        yield Entry(item["Key"][len(base) :], item["Size"])

    def move(self, path: str, to: str) -> None:
        """Of equal parts as `write` makes them, so that the etag stays what it was."""
        source, target = self._key(path), self._key(to)
        with _clear_errors(self._shown(source)):
            size = self._client.head_object(Bucket=self._bucket, Key=source)["ContentLength"]
            place = {"Bucket": self._bucket, "Key": source}
            self._client.copy(place, self._bucket, target, Config=_cut(size))  # type: ignore[arg-type]
            self._client.delete_object(Bucket=self._bucket, Key=source)

    def delete(self, path: str) -> None:
        key = self._key(path)
        with _clear_errors(self._shown(key)):
            self._client.delete_object(Bucket=self._bucket, Key=key)

    def signed(self, path: str, etag: str, seconds: int) -> str:
        """An address at which this file, of the version that the etag names, is read without keys for so long."""
        asked = {"Bucket": self._bucket, "Key": self._key(path)}
        if version := etag.partition(_VERSION)[2]:
            asked["VersionId"] = version
        with _clear_errors(self._shown(asked["Key"])):
            return str(self._client.generate_presigned_url("get_object", Params=asked, ExpiresIn=seconds))

    def _get(self, key: str, span: str, etag: str) -> GetObjectOutputTypeDef:
        where = {"Bucket": self._bucket, "Key": key, "Range": span}
        if not etag:
            return self._client.get_object(**where)  # type: ignore[arg-type]
        plain, _, version = etag.partition(_VERSION)
        try:
            return self._client.get_object(**where, IfMatch=f'"{plain}"')  # type: ignore[arg-type]
        except ClientError as error:
            if _code(error) not in ("412", "PreconditionFailed") and not (version and _is_missing(error)):
                raise
        # Only now: to read by the version's id is a permission of its own.
        with suppress(ClientError):
            if version:
                return self._client.get_object(**where, VersionId=version)  # type: ignore[arg-type]
        try:
            now = _etag(self._client.head_object(Bucket=self._bucket, Key=key))
        except ClientError:
            now = ""
        raise changed(self._shown(key), etag, now)

    def _key(self, path: str) -> str:
        return f"{self._prefix}/{checked(path)}" if self._prefix else checked(path)

    def _shown(self, key: str) -> str:
        return f"{self._scheme}://{self._bucket}/{key}"


def _cut(size: int) -> TransferConfig:
    part = max(_PART, -(-size // (_MOST_PARTS - 1)))
    # boto3 reads ahead for its threads: few of them, or a stream faster than the link fills the memory.
    return TransferConfig(multipart_threshold=_PART, multipart_chunksize=part, max_concurrency=4)


class _Reader:
    """An iterator of blocks as the file that boto3 wants to read from."""

    def __init__(self, stream: Iterable[bytes]) -> None:
        self.length = 0
        self._blocks = iter(stream)
        self._rest = b""

    def read(self, size: int = -1) -> bytes:
        """All of `size`, as long as there is that much: boto3 takes a short answer for the end."""
        parts, left = [], size if size >= 0 else sys.maxsize
        while left > 0:
            block = self._rest or next(self._blocks, None)
            if block is None:
                break
            parts.append(block[:left])
            self._rest = block[left:]
            left -= len(parts[-1])
        data = b"".join(parts)
        self.length += len(data)
        return data


@contextmanager
def _clear_errors(where: str) -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        code = _code(error)
        why = _REASONS.get(code, f"{code}: {error.response.get('Error', {}).get('Message', '')}")
        missing = _is_missing(error) or code == "InvalidRange"
        raise TrainmasterError("source_unavailable", source=where, why=why, missing=missing) from error
    except (BotoCoreError, Boto3Error) as error:
        raise unavailable(where, error) from error


def _code(error: ClientError) -> str:
    return error.response.get("Error", {}).get("Code", "")


def _is_missing(error: ClientError) -> bool:
    return _code(error) in ("404", "NoSuchKey")


def _etag(head: Mapping[str, Any]) -> str:
    version = head.get("VersionId", "null")
    plain = str(head["ETag"]).strip('"')
    return plain if version == "null" else f"{plain}{_VERSION}{version}"


_REASONS = {
    "404": "there is no such object",
    "NoSuchKey": "there is no such object",
    "NoSuchBucket": "there is no such bucket",
    "403": "access is denied; check the credentials",
    "AccessDenied": "access is denied; check the credentials",
    "InvalidRange": "it ended before the range began",
}
