from celery import current_app
from django.db import transaction


def read_exports(version_id: str) -> None:
    transaction.on_commit(lambda: current_app.send_task("registry.read_exports", [version_id]))


def read_source(version_id: str) -> None:
    transaction.on_commit(lambda: current_app.send_task("registry.read_source", [version_id]))
