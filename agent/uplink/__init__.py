"""Metrics, log lines and checkpoints on their way up: in order, masked, resumed by offset, bounded."""
