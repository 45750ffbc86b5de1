from celery import shared_task

from webapp.monitoring import report, services


@shared_task(name="monitoring.sample")
def sample() -> None:
    services.sample()


@shared_task(name="monitoring.mail_report")
def mail_report() -> None:
    report.mail()
