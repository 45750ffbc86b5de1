"""The curves of a round: each cluster a line, and n log n beside it."""

from __future__ import annotations

from itertools import pairwise
from xml.etree import ElementTree

from benchmarks import round_curves

SVG = "{http://www.w3.org/2000/svg}"


def line(cluster: str, nodes: int, pending: int, cpu_ms: float) -> round_curves.Line:
    return {"cluster": cluster, "nodes": nodes, "pending": pending, "cpu_ms": cpu_ms}


def test_both_curves_stand_beside_n_log_n_and_no_name_on_another() -> None:
    sizes = [(625, 5_000, 50.0), (1_250, 5_000, 90.0), (1_250, 10_000, 180.0)]
    lines = [line(cluster, *size) for cluster in ("busy", "empty") for size in sizes]
    drawn = ElementTree.fromstring(round_curves.svg(lines))
    assert len(drawn.findall(f"{SVG}polyline")) == 6
    names = [text for text in drawn.iter(f"{SVG}text") if text.text in ("busy", "empty", "n log n")]
    places = sorted((int(text.get("x") or 0) > 330, int(text.get("y") or 0)) for text in names)
    for (panel, y), (next_panel, next_y) in pairwise(places):
        assert panel != next_panel or next_y - y >= 12
