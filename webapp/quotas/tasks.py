from celery import shared_task

from webapp.quotas import sharing


@shared_task(name="quotas.sample_shares")
def sample_shares() -> None:
    sharing.sample()
