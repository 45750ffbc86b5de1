"""Whole histories of a cluster under the functions that run the real one, driven by an event heap."""
