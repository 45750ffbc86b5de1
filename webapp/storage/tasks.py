from celery import shared_task

from webapp.storage import hashing, mending, retention, services, tiers
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


@shared_task(name="storage.ask_hashers")
def ask_hashers() -> None:
    hashing.ask()


@shared_task(name="storage.move")
def move() -> None:
    tiers.move()


@shared_task(name="storage.retain")
def retain() -> None:
    retention.retain()
