"""Names of metrics and tags: those that people choose, and those that agent, SDK and clients add beside them."""

SYSTEM = "system/"  # of slots and nodes, by the agent
RANKS = "ranks/"  # of each rank, by the SDK
MLFLOW = "mlflow."  # tags in which the client of MLflow keeps name, user and source of a run


def is_system(key: str) -> bool:
    """Sampled by the platform, so it is no result of the run."""
    return key.startswith((SYSTEM, RANKS))


def unit_of(key: str) -> str:
    """How a chart writes the values: bytes by their name, shares of 1 of what the platform samples as percent."""
    last = key.rpartition("/")[2]
    if last == "bytes" or last.endswith("_bytes"):
        return "bytes"
    if last.endswith("bytes_per_second"):
        return "bytes/s"
    is_share = is_system(key) and (last.endswith(("utilisation", "_share")) or last == "mfu")
    return "share" if is_share else ""


def is_of_rank(key: str) -> bool:
    return key.startswith(RANKS)


def is_metric(key: str) -> bool:
    return not is_system(key)


def is_own_tag(name: str) -> bool:
    """A tag that somebody set, for lists with room for few; the page of a run shows all."""
    return not name.startswith(MLFLOW)
