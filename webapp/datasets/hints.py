from celery import current_app
from django.db import transaction


def register(snapshot_id: str, step: int, seconds: float = 0) -> None:
    """Its next step, so much later."""
    transaction.on_commit(
        lambda: current_app.send_task("datasets.register", [snapshot_id, step], countdown=seconds or None)
    )


def check_source(snapshot_id: str) -> None:
    transaction.on_commit(lambda: current_app.send_task("datasets.check_source", [snapshot_id]))
