from tests.webapp.jobs.conftest import cluster, submit

__all__ = ["cluster", "submit"]
