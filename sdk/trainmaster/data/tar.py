"""Tar files as WebDataset lays them out: the members of a sample stand together and share the name up to its dot."""

from __future__ import annotations

import tarfile

from trainmaster.data.sources import Paths, Shards, read_part


class Tar(Shards):
    """A sample is a dict: `__key__`, and the bytes of each member by its extension. No compressed tar files."""

    def __init__(self, paths: Paths) -> None:
        self._samples: list[list[tuple[str, tuple[tuple[str, int, int], ...]]]] = []  # by shard
        super().__init__(paths)

    def _index(self, path: str) -> int:
        samples: list[tuple[str, list[tuple[str, int, int]]]] = []
        with tarfile.open(path, "r:") as tar:
            for member in tar:
                if not member.isfile():
                    continue
                folder, slash, name = member.name.rpartition("/")
                stem, _, extension = name.partition(".")
                key = folder + slash + stem
                if not samples or samples[-1][0] != key:
                    samples.append((key, []))
                samples[-1][1].append((extension, member.offset_data, member.size))
        self._samples.append([(key, tuple(members)) for key, members in samples])
        return len(samples)

    def __getitem__(self, index: int) -> dict[str, str | bytes]:
        shard, number = self._place(index)
        key, members = self._samples[shard][number]
        path = self._paths[shard]
        parts = {extension: read_part(path, offset, size) for extension, offset, size in members}
        return {"__key__": key, **parts}
