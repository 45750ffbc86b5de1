from __future__ import annotations

from platform_core.cluster.topology import Location, spread


def test_the_sentence_counts_nodes_racks_and_blocks():
    places = [Location("n1", "r1", "b1"), Location("n2", "r1", "b1"), Location("n3", "r1", "b2")]
    assert spread(places[:1]).sentence == "1 node"
    assert spread(places[:2]).sentence == "2 nodes in 1 rack"
    assert spread(places).sentence == "3 nodes in 2 racks of 2 blocks"
