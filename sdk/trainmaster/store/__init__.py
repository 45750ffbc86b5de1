"""Stores of bytes named by URL: `file://`, `s3://` and `gs://` to read and write, `http(s)://` to read."""

from __future__ import annotations

from platform_core.errors import TrainmasterError
from trainmaster.store.address import parse
from trainmaster.store.port import SILENCE_SECONDS, Entry, Store, shown

__all__ = ["Entry", "Store", "open_store", "shown"]


def open_store(url: str, silence: float = SILENCE_SECONDS, attempts: int = 3) -> Store:
    """The store at this URL; nothing is contacted yet. boto3 (an extra) is imported only for s3:// and gs://.

    A call fails after so many seconds without a byte; those to S3 are tried so often when the server is busy.
    """
    scheme = parse(url).scheme
    if scheme == "file":
        from trainmaster.store.file import FileStore

        return FileStore(url)
    if scheme in ("s3", "gs"):
        try:
            from trainmaster.store.s3 import S3Store
        except ModuleNotFoundError as error:
            why = f"reading {scheme}:// needs boto3; install trainmaster[agent]"
            raise TrainmasterError("request_invalid", what=shown(url), why=why) from error
        return S3Store(url, silence, attempts)
    from trainmaster.store.http import HttpStore

    return HttpStore(url, silence)
