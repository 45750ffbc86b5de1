"""Pieces from the store of the platform, and from models that are here already."""
