"""Addresses of content in stores, and which sources the platform may read with its own credentials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from platform_core.errors import TrainmasterError


@dataclass(frozen=True, slots=True)
class Address:
    """URLs that name the same place have equal addresses, file system links aside.

    `file://localhost/srv//a%20b/` is scheme "file", host "" and parts ("srv", "a b").
    """

    scheme: str
    host: str  # the bucket in S3
    parts: tuple[str, ...]  # decoded
    query: str = ""  # of http only: a signature, say

    @property
    def path(self) -> str:
        return "/".join(self.parts)

    def __str__(self) -> str:
        """For sentences: decoded, without password and query."""
        return f"{self.scheme}://{self.host.rpartition('@')[2]}/{self.path}"

    def is_within(self, folder: Address) -> bool:
        """True for the folder and everything below it, by whole names: models-private is not below models."""
        place, above = (self.scheme, self.host, *self.parts), (folder.scheme, folder.host, *folder.parts)
        return place[: len(above)] == above


def check_source(source: Address, prefixes: Sequence[Address], stores: Sequence[Address]) -> None:
    """Raises request_invalid unless the source is below an allowed prefix and outside the platform's own stores."""
    if any(source.is_within(store) or store.is_within(source) for store in stores):
        why = f"{source} holds the platform's own store; register an upload or a checkpoint instead"
    elif not any(source.is_within(prefix) for prefix in prefixes):
        allowed = (
            f"is not beneath {', '.join(map(str, prefixes))}"
            if prefixes
            else "cannot be read: no place is allowed"
        )
        why = f"{source} {allowed}; an operator lists places in TRAINMASTER_SOURCE_PREFIXES"
    else:
        return
    raise TrainmasterError("request_invalid", what="source_url", why=why)
