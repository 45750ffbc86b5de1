"""Pieces from and to other nodes."""
