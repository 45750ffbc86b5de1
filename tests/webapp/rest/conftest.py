"""The small cluster of the jobs' tests."""

from tests.webapp.jobs.conftest import cluster, submit

__all__ = ["cluster", "submit"]
