"""One manifest out of the parts of all nodes."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.checkpointing.parts import (
    DESCRIPTION,
    Incomplete,
    Merged,
    Part,
    merge,
)
from platform_core.distribution.content.manifest import ManifestBuilder, join, split
from platform_core.errors import TrainmasterError


def part(rank: int, nodes: int = 2, files: dict[str, bytes] | None = None, **changes: object) -> Part:
    builder = ManifestBuilder("checkpoint")
    for path, data in (files or {f"rank-{rank}.bin": f"state {rank}".encode()}).items():
        builder.feed(path, data)
    made = Part(
        rank, nodes, 4, builder.finish(), 1000 + rank, 500 - rank, 10 + rank, 20 + rank, False, {"loss": rank}
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def merged(*parts: Part) -> Merged:
    result = merge(7, parts)
    assert isinstance(result, Merged)
    return result


@given(st.permutations([part(rank, nodes=4) for rank in range(4)]))
def test_the_order_of_the_parts_does_not_matter(parts: list[Part]) -> None:
    assert merged(*parts) == merged(*sorted(parts, key=lambda each: each.node_rank))


@given(st.sets(st.integers(0, 5)))
def test_without_every_part_there_is_no_checkpoint(ranks: set[int]) -> None:
    result = merge(7, [part(rank, nodes=6) for rank in ranks])
    if len(ranks) == 6:
        assert isinstance(result, Merged)
    else:
        assert isinstance(result, Incomplete)
        assert set(result.missing) == (set(range(6)) - ranks if ranks else set())


def test_the_description_names_every_file_with_its_chunks_and_the_slowest_times() -> None:
    whole = merged(part(0), part(1, emergency=True))
    document = json.loads(whole.description)
    assert [file["path"] for file in document["files"]] == ["rank-0.bin", "rank-1.bin"]
    assert all(len(file["chunks"]) == 1 for file in document["files"])
    numbers = {
        name: document[name]
        for name in ("format", "step", "saved_at_ms", "began_at_ms", "blocking_ms", "nodes")
    }
    assert numbers == {
        "format": 2,
        "step": 7,
        "saved_at_ms": 1001,
        "began_at_ms": 499,
        "blocking_ms": 11,
        "nodes": 2,
    }
    assert (document["emergency"], document["metrics"], document["world_size"]) == (True, {"loss": 0}, 4)
    assert DESCRIPTION in [entry.path for entry in whole.manifest.files]


def test_a_manifest_taken_apart_and_joined_is_the_same() -> None:
    builder = ManifestBuilder("checkpoint", chunk_size=8, piece_size=4)
    for path, data in {"a": b"x" * 21, "b": b"", "c": b"yy"}.items():
        builder.feed(path, data)
    manifest = builder.finish()
    assert join("checkpoint", split(manifest), 4) == manifest


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ([part(2)], "node rank 2 is not one of 2 nodes"),
        ([part(0), part(1, nodes=3)], "for 3 nodes"),
        ([part(0), part(1, world_size=8)], "8 ranks"),
        ([part(0, files={DESCRIPTION: b"{}"})], "written by the platform"),
        ([part(0, files={"same": b"a"}), part(1, files={"same": b"b"})], "same is there twice"),
    ],
)
def test_parts_that_do_not_belong_together_are_refused(parts: list[Part], why: str) -> None:
    with pytest.raises(TrainmasterError, match=why):
        merge(7, parts)
