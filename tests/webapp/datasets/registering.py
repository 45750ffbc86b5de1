"""Registration in these tests: step after step, as a worker does it."""

from webapp.datasets import registration
from webapp.datasets.models import HASHING, LISTING, DatasetSnapshot


def run(snapshot: DatasetSnapshot) -> DatasetSnapshot:
    """Until it has ended."""
    snapshot.refresh_from_db()
    while snapshot.state in (LISTING, HASHING):
        registration.advance(snapshot.id, snapshot.step)
        snapshot.refresh_from_db()
    return snapshot
