from celery import shared_task

from webapp.accounts import mailing


@shared_task(name="accounts.deliver_mail")
def deliver_mail() -> None:
    mailing.deliver()
