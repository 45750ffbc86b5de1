"""The gate of sources that people name, and how the platform reads them: beneath allowed places, through no link."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import NamedTuple
from urllib.parse import urlsplit

from django.conf import settings

from platform_core.distribution.content import address
from platform_core.errors import TrainmasterError
from platform_core.units import format_bytes
from trainmaster.store import Store, open_store
from trainmaster.store.address import located, url_of
from trainmaster.store.http import HttpStore
from trainmaster.store.linkless import LinklessFileStore
from trainmaster.store.port import checked
from webapp.artifacts import queries as artifacts
from webapp.base import outbound

ASKED_AT_ONCE = 16


class Found(NamedTuple):
    path: str
    size: int
    etag: str


def check(source_url: str) -> str:
    """The address in its one spelling. Raises request_invalid for what the platform may not read for people.

    `file://` and `s3://` lie beneath an allowed prefix. A web server is on the public internet, or allowed by
    TRAINMASTER_OUTBOUND_HOSTS, and is not the platform itself.
    """
    source = located(source_url)
    if source.scheme not in ("http", "https"):
        prefixes = [located(prefix) for prefix in settings.SOURCE_PREFIXES]
        address.check_source(source, prefixes, artifacts.stores())
        return url_of(source)
    url = url_of(source)
    parts = urlsplit(url)
    if parts.username or parts.password:
        raise _refused(
            "a password in the address would be shown to everybody who sees the dataset; leave it out"
        )
    if parts.hostname == urlsplit(settings.PUBLIC_URL).hostname:
        raise _refused(f"{parts.hostname} is this platform itself")
    outbound.resolve(parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
    return url


def opened(source_url: str, deadline: float | None = None) -> Store:
    """The store at an address that was checked. `deadline`: seconds for each range of a web server."""
    scheme = urlsplit(source_url).scheme
    if scheme == "file":
        return LinklessFileStore(source_url)
    if scheme in ("http", "https"):
        return HttpStore(source_url, deadline=deadline)
    return open_store(source_url)


def files(source_url: str, paths: Sequence[str]) -> Iterator[Found]:
    """Every file of the source, or those at these paths, within the limits of a dataset."""
    store = opened(source_url)
    if paths:
        entries = ((path, store.size(path)) for path in map(checked, paths))
    elif source_url.startswith("http"):
        raise _refused("a web server cannot be listed; name the files below it as paths")
    else:
        entries = ((checked(entry.path), entry.size) for entry in store.list())
    limited = _limited(entries)
    with ThreadPoolExecutor(
        ASKED_AT_ONCE, "etags"
    ) as pool:  # a store in a network answers each after a while
        while batch := list(islice(limited, 32 * ASKED_AT_ONCE)):
            etags = pool.map(store.etag, [path for path, _ in batch])
            yield from (Found(path, size, etag) for (path, size), etag in zip(batch, etags, strict=True))


def _limited(entries: Iterable[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    count = total = 0
    for path, size in entries:
        count, total = count + 1, total + size
        if count > settings.DATASET_FILES_LIMIT:
            limit = f"{settings.DATASET_FILES_LIMIT:,}"
            raise TrainmasterError("too_large", what="The dataset", size=f"over {limit} files", limit=limit)
        if total > settings.DATASET_BYTES_LIMIT:
            limit = format_bytes(settings.DATASET_BYTES_LIMIT)
            raise TrainmasterError("too_large", what="The dataset", size=f"over {limit}", limit=limit)
        yield path, size


def _refused(why: str) -> TrainmasterError:
    return TrainmasterError("request_invalid", what="source_url", why=why)
