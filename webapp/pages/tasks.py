from celery import shared_task

from webapp.pages.report import report


@shared_task(name="pages.mail_report")
def mail_report() -> None:
    report.mail()
