"""The books of the cluster, which must agree at every moment: slots, attempts and the usage ledger."""

from django.db import transaction

from platform_core.cluster.invariants import AttemptHolding, Books
from webapp.jobs.models import Attempt
from webapp.nodes import queries as clusters
from webapp.quotas import queries as quotas

_LIVING = ("assigned", "preparing", "running")


def books() -> Books:
    """Reads all of them in one transaction, as of one moment."""
    with transaction.atomic():
        attempts = Attempt.objects.filter(ended_ms=None).prefetch_related("members")
        return Books(slots=clusters.books(), attempts=tuple(map(_holding, attempts)), ledger=quotas.books())


def _holding(attempt: Attempt) -> AttemptHolding:
    members = attempt.members.all()
    held = tuple((member.node_id, tuple(member.slots)) for member in members if member.phase in _LIVING)
    return AttemptHolding(attempt.id, attempt.job_id, held)
