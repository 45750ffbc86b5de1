"""Discrete-event simulation of a cluster, driven by the same functions that run the real one."""
