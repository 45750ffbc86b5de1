"""Pieces are written past the page cache where that is possible; what is in the file is the same either way."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.transfer.disk import writer
from agent.transfer.disk.writer import Writer

BLOCK = 4096


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("writing")


def written(folder: Path, offset: int, parts: list[bytes]) -> bytes:
    path = folder / "weights.bin"
    path.write_bytes(b"\xee" * (offset + sum(map(len, parts)) + BLOCK))
    directory = os.open(folder, os.O_DIRECTORY)
    try:
        Writer().write(directory, path.name, offset, [memoryview(part) for part in parts])
    finally:
        os.close(directory)
    return path.read_bytes()


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(each % (len(data) + 1) for each in cuts)})
    return [data[first:last] for first, last in pairwise(edges)]


@given(st.integers(0, 3), st.integers(1, 6), st.lists(st.integers(0, 6 * BLOCK), max_size=3))
def test_whole_blocks_however_they_are_cut(folder: Path, at: int, blocks: int, cuts: list[int]) -> None:
    data = os.urandom(blocks * BLOCK)
    offset = at * BLOCK
    found = written(folder, offset, cut(data, cuts))
    assert found == b"\xee" * offset + data + b"\xee" * BLOCK


@given(st.integers(0, 2 * BLOCK), st.integers(1, 2 * BLOCK))
def test_odd_places_and_lengths(folder: Path, offset: int, size: int) -> None:
    data = os.urandom(size)
    assert written(folder, offset, [data]) == b"\xee" * offset + data + b"\xee" * BLOCK


def test_a_piece_larger_than_the_buffer(folder: Path) -> None:
    data = os.urandom(writer._BUFFER_BYTES * 2 + BLOCK)
    assert written(folder, 0, [data[:BLOCK], data[BLOCK:]])[: len(data)] == data


def test_a_file_system_that_only_has_the_page_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some network and memory file systems refuse O_DIRECT with EINVAL."""
    opened = os.open

    def refusing(path: str, flags: int, *rest: int, dir_fd: int | None = None) -> int:
        if flags & os.O_DIRECT:
            raise OSError(22, os.strerror(22))
        return opened(path, flags, *rest, dir_fd=dir_fd)

    monkeypatch.setattr("agent.transfer.disk.writer.os.open", refusing)
    data = os.urandom(2 * BLOCK)
    assert written(folder, 0, [data])[: len(data)] == data
