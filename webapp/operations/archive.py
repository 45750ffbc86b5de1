"""One file that holds a whole platform: a tar with a database dump, a store and secrets, and a manifest at its end.

The manifest names the version that wrote it, the time, and the size and SHA-256 of every other member.
"""

import hashlib
import io
import json
import os
import re
import tarfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

MANIFEST, DATABASE, STORE, COLD_STORE = "manifest.json", "database.dump", "store", "cold-store"
BLOCK = 1 << 20
UNFINISHED = ".unfinished"  # of files that the store is just writing; they have no name yet


class ArchiveError(Exception):
    """Why an archive cannot be written or is not used."""


@dataclass
class Manifest:
    version: str
    created: str  # ISO 8601, UTC
    store_url: str
    with_store: bool
    cold_store_url: str = ""  # empty: there was none
    with_cold_store: bool = False
    files: dict[str, tuple[int, str]] = field(default_factory=dict)  # name → size and SHA-256


class _Hashing:
    """A file that remembers the digest of what was read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        block = self._file.read(size)
        self.digest.update(block)
        return block


class Writer:
    """Writes beside the target first: an archive that was cut short never has its name."""

    def __init__(self, target: Path, manifest: Manifest) -> None:
        self._target = target
        self._fresh = target.with_name(target.name + ".fresh")
        self._manifest = manifest

    def __enter__(self) -> "Writer":
        descriptor = os.open(self._fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        self._tar = tarfile.open(fileobj=os.fdopen(descriptor, "wb"), mode="w")
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            content = json.dumps(asdict(self._manifest), indent=1).encode()
            member = tarfile.TarInfo(MANIFEST)
            member.size, member.mode = len(content), 0o600
            self._tar.addfile(member, io.BytesIO(content))
        self._tar.close()
        assert self._tar.fileobj is not None
        self._tar.fileobj.close()
        if kind is None:
            self._fresh.rename(self._target)
        else:
            self._fresh.unlink(missing_ok=True)

    def add(self, name: str, path: Path) -> None:
        """A file that was deleted since it was listed is left out: the retention of the store goes on meanwhile."""
        try:
            file = path.open("rb")
        except FileNotFoundError:
            return
        with file:
            member = self._tar.gettarinfo(arcname=name, fileobj=file)
            hashing = _Hashing(file)
            self._tar.addfile(member, hashing)
            self._manifest.files[name] = (member.size, hashing.digest.hexdigest())

    def add_folder(self, name: str, folder: Path) -> None:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.is_symlink() and not path.name.startswith(UNFINISHED):
                self.add(f"{name}/{path.relative_to(folder).as_posix()}", path)


def read_manifest(archive: Path) -> Manifest:
    try:
        with tarfile.open(archive, "r:") as tar:
            file = tar.extractfile(MANIFEST)
            assert file is not None
            document = json.load(file)
            document["files"] = {name: (size, digest) for name, (size, digest) in document["files"].items()}
            return Manifest(**document)
    except (
        OSError,
        tarfile.TarError,
        KeyError,
        ValueError,
        TypeError,
        AssertionError,
        RecursionError,
    ) as error:
        raise ArchiveError(
            f"{archive} is not a complete backup of Trainmaster: it has no readable {MANIFEST}."
        ) from error


def refuse_newer(manifest: Manifest, version: str) -> None:
    if _numbers(manifest.version) > _numbers(version):
        raise ArchiveError(
            f"The backup was made by Trainmaster {manifest.version}; this is {version}, "
            f"which does not know its tables. Install {manifest.version} or newer and restore with that."
        )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def extract(archive: Path, manifest: Manifest, target: Path) -> None:
    """Writes every member below `target`, and raises ArchiveError where one is missing, additional or damaged."""
    remaining = dict(manifest.files)
    with tarfile.open(archive, "r:") as tar:
        for member in tar:
            if member.name == MANIFEST:
                continue
            size, digest = remaining.pop(member.name, (-1, ""))
            path = target / member.name
            if (
                not member.isfile()
                or member.size != size
                or not path.resolve().is_relative_to(target.resolve())
            ):
                raise ArchiveError(f"{archive} holds {member.name}, which its manifest does not describe so.")
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            content = tar.extractfile(member)
            assert content is not None
            if _copied(content, path) != digest:
                raise ArchiveError(
                    f"{member.name} in {archive} is damaged: its SHA-256 is not that of the manifest."
                )
            path.chmod(member.mode)
            os.utime(path, (member.mtime, member.mtime))
    if remaining:
        raise ArchiveError(f"{archive} lacks {next(iter(remaining))}; it was cut short.")


def _copied(content: IO[bytes], path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("wb") as file:
        path.chmod(0o600)
        for block in _blocks(content):
            digest.update(block)
            file.write(block)
    return digest.hexdigest()


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    return iter(lambda: file.read(BLOCK), b"")
