"""Rules between settings that are right one by one and wrong together."""

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register

from platform_core.errors import TrainmasterError
from trainmaster.store.address import located, parse


@register()
def settings_agree(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Heartbeats, suspicion, loss and leases follow each other in time, and mail has a server."""
    heartbeat, suspect, lost = (
        settings.HEARTBEAT_SECONDS,
        settings.SUSPECT_AFTER_SECONDS,
        settings.LOST_AFTER_SECONDS,
    )
    problems: list[CheckMessage] = []
    if heartbeat * 2 > suspect:
        problems.append(
            Error(
                f"Nodes report every {heartbeat} s and are suspect after {suspect} s: one late heartbeat is enough.",
                hint="Let TRAINMASTER_SUSPECT_AFTER_SECONDS be at least twice TRAINMASTER_HEARTBEAT_SECONDS.",
                id="trainmaster.E001",
            )
        )
    if suspect * 2 > lost:
        problems.append(
            Error(
                f"A node is suspect after {suspect} s and lost after {lost} s: late heartbeats would end its jobs.",
                hint="Let TRAINMASTER_LOST_AFTER_SECONDS be at least twice TRAINMASTER_SUSPECT_AFTER_SECONDS.",
                id="trainmaster.E002",
            )
        )
    if settings.LEASE_SECONDS <= settings.TICK_SECONDS:
        problems.append(
            Error(
                f"The scheduler's lease of {settings.LEASE_SECONDS} s ends before the next tick "
                f"in {settings.TICK_SECONDS} s.",
                hint="Let TRAINMASTER_LEASE_SECONDS be greater than TRAINMASTER_TICK_SECONDS.",
                id="trainmaster.E003",
            )
        )
    if settings.REPORT_RECIPIENTS and not settings.MAIL_URL:
        problems.append(
            Error(
                f"The weekly report goes to {', '.join(settings.REPORT_RECIPIENTS)}, and no mail server is set.",
                hint="Set TRAINMASTER_MAIL_URL, as smtp://localhost:25, or leave TRAINMASTER_REPORT_RECIPIENTS empty.",
                id="trainmaster.E004",
            )
        )
    if settings.PRIORITY_OF_LEADS > settings.PRIORITY_OF_MEMBERS:
        problems.append(
            Error(
                f"Members may use priorities from {settings.PRIORITY_OF_MEMBERS} on, "
                f"leads only from {settings.PRIORITY_OF_LEADS} on.",
                hint="Let TRAINMASTER_PRIORITY_OF_LEADS be at most TRAINMASTER_PRIORITY_OF_MEMBERS.",
                id="trainmaster.E006",
            )
        )
    return problems


@register()
def places_are_addresses(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """The store and the source prefixes are URLs of stores."""
    problems: list[CheckMessage] = []
    for name, urls in (
        ("TRAINMASTER_STORE_URL", [settings.STORE_URL]),
        ("TRAINMASTER_COLD_STORE_URL", [settings.COLD_STORE_URL] if settings.COLD_STORE_URL else []),
        ("TRAINMASTER_SOURCE_PREFIXES", settings.SOURCE_PREFIXES),
    ):
        for url in urls:
            try:
                parse(url)
            except TrainmasterError as error:
                hint = f"Write it as file:///folder or s3://bucket/prefix in {name}."
                problems.append(Error(error.sentence, hint=hint, id="trainmaster.E005"))
    return problems or _stores_apart()


def _stores_apart() -> list[CheckMessage]:
    if not settings.COLD_STORE_URL:
        return []
    hot, cold = located(settings.STORE_URL), located(settings.COLD_STORE_URL)
    if not hot.is_within(cold) and not cold.is_within(hot):
        return []
    sentence = (
        f"The cold store {cold} and the store {hot} lie in one another: what is cold could not be told."
    )
    hint = "Let TRAINMASTER_COLD_STORE_URL name a place beside TRAINMASTER_STORE_URL."
    return [Error(sentence, hint=hint, id="trainmaster.E007")]
