from celery import current_app
from django.db import transaction


def read_training_reference(version_id: str) -> None:
    transaction.on_commit(lambda: current_app.send_task("serving.read_training_reference", [version_id]))
