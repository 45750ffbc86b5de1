"""Names of metrics: those that a script reports, and the series that the agent and the SDK sample beside them."""

SYSTEM = "system/"  # of slots and nodes, by the agent
RANKS = "ranks/"  # of each rank, by the SDK


def is_system(key: str) -> bool:
    """Sampled by the platform, so it is no result of the run."""
    return key.startswith((SYSTEM, RANKS))


def is_of_rank(key: str) -> bool:
    return key.startswith(RANKS)


def is_metric(key: str) -> bool:
    return not is_system(key)
