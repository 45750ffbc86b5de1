"""What the tests of other apps ask of the metric store."""

from webapp.metrics import queries


def rows(run: str, key: str) -> list[tuple[int, float, int]]:
    """(step, value, at_ms) of each point that counts, in order."""
    points = queries.points(run, [key]).get(key)
    return list(zip(points.steps, points.values, points.times_ms, strict=True)) if points else []
