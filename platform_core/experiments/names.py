"""Names of metrics: those that a script reports, and the system series that the agent samples beside them."""

SYSTEM = "system/"


def is_system(key: str) -> bool:
    return key.startswith(SYSTEM)


def is_metric(key: str) -> bool:
    return not is_system(key)
