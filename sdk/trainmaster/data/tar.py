"""Tar files as WebDataset lays them out: the members of a sample stand together and share the name up to its dot."""

from __future__ import annotations

import tarfile

from trainmaster.data.sources import Shards, read_part


class Tar(Shards):
    """A sample is a dict: `__key__`, and the bytes of each member by its extension. No compressed tar files."""

    def _index(self, path: str) -> tuple[int, list[tuple[str, tuple[tuple[str, int, int], ...]]]]:
        """The key of each sample, and extension, offset and size of its members."""
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
        return len(samples), [(key, tuple(members)) for key, members in samples]

    def __getitem__(self, index: int) -> dict[str, str | bytes]:
        shard, number = self._place(index)
        key, members = self._index_of(shard)[number]
        path = self._paths[shard]
        parts = {extension: read_part(path, offset, size) for extension, offset, size in members}
        return {"__key__": key, **parts}
