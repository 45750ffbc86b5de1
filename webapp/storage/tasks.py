from celery import shared_task

from webapp.storage import mending, services
from webapp.storage import scrub as scrubbing


@shared_task(name="storage.account")
def account() -> None:
    services.account()


@shared_task(name="storage.clean")
def clean() -> None:
    services.clean()


@shared_task(name="storage.scrub")
def scrub() -> None:
    mending.recheck()
    scrubbing.scrub()
    mending.ask()
