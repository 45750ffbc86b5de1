"""Figures about the scheduler for reports: fragmentation, and waits by the size of a job."""
