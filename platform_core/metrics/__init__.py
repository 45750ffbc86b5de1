"""Curves of metric points: bands a column of pixels, and what a summary of a chunk can answer."""
