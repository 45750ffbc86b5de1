"""URLs of stores read into addresses, in the one way that the stores and the gate of sources share."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from platform_core.distribution.content.address import Address
from platform_core.errors import TrainmasterError

_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_BUCKET = re.compile(r"[A-Za-z0-9._-]+")


def parse(url: str) -> Address:
    """Decodes once, as the stores do, which read their URLs here. Raises request_invalid."""
    try:
        if _CONTROL.search(url):
            raise ValueError("it has control characters or is not Unicode text")
        split = urlsplit(url)
        path = unquote(split.path, errors="strict")
        parts = _parts(split.scheme, path)
        host = _host(split.scheme, split.netloc, path)
        if split.scheme in ("file", "s3", "gs") and (split.query or split.fragment):
            raise ValueError("a name with ? or # is written with %3F or %23")
    except ValueError as error:  # a UnicodeDecodeError is one, too
        known = _without_secrets(url)
        raise TrainmasterError("request_invalid", what=f"the store URL {known!r}", why=error) from error
    return Address(split.scheme, host, parts, split.query)


def _host(scheme: str, host: str, path: str) -> str:
    if scheme == "file":
        if host not in ("", "localhost") or not path.startswith("/"):
            raise ValueError("a file URL has three slashes and an absolute path, as in file:///srv/store")
        return ""
    if scheme in ("s3", "gs"):
        if not host:
            raise ValueError("the bucket is missing")
        if not _BUCKET.fullmatch(host):
            raise ValueError("a bucket is named by letters, digits, '.', '_' and '-'")
        return host
    if scheme in ("http", "https"):
        person, at, server = host.rpartition("@")
        return person + at + server.lower()
    raise ValueError("a store begins with file://, s3://, gs://, http:// or https://")


def _parts(scheme: str, path: str) -> tuple[str, ...]:
    if _CONTROL.search(path):
        raise ValueError("it has control characters")
    # A disk takes two slashes for one; elsewhere they make another name, so they are no spelling of this one.
    parts = tuple(filter(None, path.split("/"))) if scheme == "file" else tuple(path.strip("/").split("/"))
    if parts == ("",):
        return ()
    if any(part in ("", ".", "..") for part in parts):
        raise ValueError("an empty, '.' or '..' part leads elsewhere than it seems")
    if scheme.startswith("http") and ("%" in path or "\\" in path):
        raise ValueError("web servers differ in how they read % and \\ within a name")
    return parts


def _without_secrets(url: str) -> str:
    """Without password and query, also where it cannot be parsed."""
    scheme, separator, rest = url.partition("://")
    return f"{scheme}{separator}{re.split(r'[?#]', rest)[0].rpartition('@')[2]}"[:200]


def url_of(address: Address) -> str:
    """The one way to write it."""
    query = f"?{address.query}" if address.query else ""
    slash = "/" if address.parts or address.scheme == "file" else ""
    return f"{address.scheme}://{address.host}{slash}{quote(address.path)}{query}"


def located(url: str) -> Address:
    """The address of this URL, with the links of a disk followed."""
    address = parse(url)
    if address.scheme != "file":
        return address
    return replace(address, parts=Path("/", *address.parts).resolve().parts[1:])
