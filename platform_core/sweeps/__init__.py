"""Sweeps: the search space, the samplers and the early stopping, seeded and pure."""
