from celery import shared_task

from webapp.registry import exports, measuring, services


@shared_task(name="registry.read_source")
def read_source(version_id: str) -> None:
    services.read_source(version_id)


@shared_task(name="registry.read_exports")
def read_exports(version_id: str) -> None:
    exports.read_report(version_id)


@shared_task(name="registry.measure_exports")
def measure_exports() -> None:
    measuring.follow_all()
