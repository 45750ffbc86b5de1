from celery import shared_task

from webapp.registry import services


@shared_task(name="registry.read_source")
def read_source(version_id: str) -> None:
    services.read_source(version_id)
