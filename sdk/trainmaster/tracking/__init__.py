"""Sends runs outside the platform to it: while they run from a thread, later by `trainmaster sync`.

The spool in the run's folder is the truth. What is sent is read from there, in order, from where the platform has
acknowledged it, so that a killed process, a restart and a second try send every event exactly once.
"""
