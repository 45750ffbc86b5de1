from celery import shared_task

from webapp.jobs import utilisation as services
from webapp.pages.report import report


@shared_task(name="monitoring.sample")
def sample() -> None:
    services.sample()


@shared_task(name="monitoring.mail_report")
def mail_report() -> None:
    report.mail()
