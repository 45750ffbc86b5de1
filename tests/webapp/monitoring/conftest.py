from tests.webapp.jobs.conftest import cluster

__all__ = ["cluster"]
