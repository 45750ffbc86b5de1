"""The map of chunks and the waterfall, for thousands of nodes as for four."""

import base64
from types import SimpleNamespace
from typing import Any

from webapp.pages.deployments import movement


def worker(name: str, **changes: Any) -> Any:
    node = SimpleNamespace(hostname=name, rack=changes.pop("rack", "rack-1"), block=changes.pop("block", ""))
    told = {
        "node": node, "node_id": name, "position": 0, "state": "receiving", "chunks_done": b"", "bytes_done": 0,
        "bytes_total": 100, "rate_in": 0.0, "source": "", "lanes": [], "held": [], "store_bytes": 0, "started_ms": None,
        "finished_ms": None,
    }  # fmt: skip
    return SimpleNamespace(**{**told, **changes})


def deployment(chunks: int) -> Any:
    manifest = SimpleNamespace(document={"chunks": [{}] * chunks, "piece_size": 10}, total_bytes=100)
    return SimpleNamespace(
        model_version=SimpleNamespace(manifest=manifest),
        started_ms=1_000,
        created_ms=0,
        finished_ms=None,
        state="complete",
    )


def test_the_map_goes_by_racks_and_those_that_are_complete_have_all() -> None:
    told = movement.chunk_map(
        deployment(9), [worker("b", rack="rack-2", chunks_done=b"\x05"), worker("a", state="complete")]
    )
    rows = [(row["node"], base64.b64decode(row["bits"])) for row in told["rows"]]
    assert (told["chunks"], rows) == (9, [("a", b"\xff\xff"), ("b", b"\x05")])


def test_a_thousand_nodes_by_five_hundred_chunks_are_a_small_answer() -> None:
    told = movement.chunk_map(deployment(500), [worker(f"n{n}", chunks_done=bytes(63)) for n in range(1000)])
    assert sum(len(row["bits"]) for row in told["rows"]) < 100_000


def test_the_waterfall_shows_who_was_ready_last_first() -> None:
    told = movement.waterfall(
        deployment(1),
        [
            worker("quick", state="complete", started_ms=1_000, finished_ms=2_000),
            worker("late", state="failed", started_ms=2_000, finished_ms=5_000),
            worker("never"),
        ],
    )
    assert [(one["node"], one["runs"], one["took_ms"], one["failed"]) for one in told] == [
        ("late", [(250, 750, "bad")], 4_000, True),
        ("quick", [(0, 250, "have")], 1_000, False),
    ]


def test_one_that_came_long_after_the_others_does_not_squash_them() -> None:
    row = deployment(1)
    row.finished_ms = 3_000
    ready = worker("ready", state="complete", started_ms=1_000, finished_ms=2_000)
    late = worker("late", state="failed", started_ms=900_000, finished_ms=901_000)
    assert [(one["node"], one["runs"]) for one in movement.waterfall(row, [ready, late])] == [
        ("late", [(996, 4, "bad")]),
        ("ready", [(0, 500, "have")]),
    ]


def test_the_bound_is_that_of_the_core() -> None:
    # Ten pieces, and log2(4) - 1 more rounds of one.
    assert movement.bound_ms(deployment(1), workers=3, rate=100) == 1_100
    assert movement.bound_ms(deployment(1), workers=0, rate=100) == 0
