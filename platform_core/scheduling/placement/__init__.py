"""Nodes as bit sets, and the search for the nodes of one gang. Read `node_index`, `search`, `cluster_view`."""
