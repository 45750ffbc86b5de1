"""Nodes, their health and distance, and what must hold for the cluster as a whole."""
