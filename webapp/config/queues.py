"""Which queue carries which task, and for how long one may run.

What the platform lives by has processes of its own: nothing that waits for somebody else, and nothing whose size a
member chooses, runs in them. webapp.operations.programs says which program takes which queues.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from kombu import Queue as BrokerQueue


class Queue(StrEnum):
    SCHEDULING = "scheduling"  # the rounds of the scheduler, alone
    COORDINATION = "coordination"  # what serves, is deployed or rolled out, and the alerts
    MEMBERS = "members"  # what members asked for: no longer than its size, but its size is theirs
    NOTICES = "notices"  # mail and webhooks, to receivers that may be slow
    SOURCES = "sources"  # what lies where members said, on servers that may be slow
    UPKEEP = "upkeep"  # records, retention and the store
    EARLIER = "celery"  # the only queue of earlier versions, emptied after an upgrade


# Task → its queue, and the seconds after which it is told to end. It is ended HARD_AFTER seconds later.
TASKS: dict[str, tuple[Queue, int]] = {
    "scheduling.tick": (Queue.SCHEDULING, 60),
    "alerts.evaluate": (Queue.COORDINATION, 30),
    "checkpoints.set_intervals": (Queue.COORDINATION, 30),
    "deployments.coordinate": (Queue.COORDINATION, 90),  # a plan for a thousand nodes
    "experiments.end_silent_runs": (Queue.COORDINATION, 30),
    "rollouts.coordinate": (Queue.COORDINATION, 30),
    "serving.coordinate": (Queue.COORDINATION, 30),
    "storage.ask_hashers": (Queue.COORDINATION, 30),
    "evaluations.coordinate": (Queue.MEMBERS, 60),
    "metrics.compact": (Queue.MEMBERS, 60),
    "registry.measure_exports": (Queue.MEMBERS, 60),
    "retraining.coordinate": (Queue.MEMBERS, 60),
    "scheduling.answer": (Queue.MEMBERS, 60),
    "sweeps.coordinate": (Queue.MEMBERS, 60),
    "accounts.deliver_mail": (Queue.NOTICES, 60),
    "alerts.deliver": (Queue.NOTICES, 60),
    "pages.mail_report": (Queue.NOTICES, 120),
    "datasets.check_source": (Queue.SOURCES, 120),
    "datasets.continue_registrations": (Queue.SOURCES, 30),
    "datasets.follow": (Queue.SOURCES, 60),
    "datasets.register": (Queue.SOURCES, 120),
    "registry.read_exports": (Queue.SOURCES, 120),
    "registry.read_source": (Queue.SOURCES, 120),
    "serving.read_training_reference": (Queue.SOURCES, 120),
    "checkpoints.retain": (Queue.UPKEEP, 120),
    "experiments.compare_plans": (Queue.UPKEEP, 60),
    "experiments.measure": (Queue.UPKEEP, 60),
    "experiments.remove_deleted": (Queue.UPKEEP, 300),
    "jobs.archive_logs": (Queue.UPKEEP, 120),
    "jobs.sample_utilisation": (Queue.UPKEEP, 30),
    "jobs.shorten_log": (Queue.UPKEEP, 60),
    "metrics.retain": (Queue.UPKEEP, 300),
    "metrics.sweep": (Queue.UPKEEP, 60),
    "quotas.sample_shares": (Queue.UPKEEP, 60),
    "scheduling.predict": (Queue.UPKEEP, 300),  # a minute with 5,000 waiting jobs
    "service_levels.measure": (Queue.UPKEEP, 30),
    "serving.publish_collected": (Queue.UPKEEP, 300),
    "storage.account": (Queue.UPKEEP, 600),
    "storage.clean": (Queue.UPKEEP, 300),
    "storage.move": (Queue.UPKEEP, 600),
    "storage.retain": (Queue.UPKEEP, 300),
    "storage.scrub": (Queue.UPKEEP, 600),
}
HARD_AFTER = 30  # seconds


def routes() -> dict[str, dict[str, str]]:
    return {task: {"queue": queue.value} for task, (queue, _) in TASKS.items()}


def limits() -> dict[str, dict[str, Any]]:
    return {
        task: {"soft_time_limit": soft, "time_limit": soft + HARD_AFTER} for task, (_, soft) in TASKS.items()
    }


def broker_queues() -> list[BrokerQueue]:
    return [BrokerQueue(queue.value, routing_key=queue.value) for queue in Queue]
