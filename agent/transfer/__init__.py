"""Models on their way to this node and on to its neighbours."""
