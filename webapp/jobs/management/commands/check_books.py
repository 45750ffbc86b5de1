"""For operators: do slots, attempts and the usage ledger agree?"""

from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from platform_core.cluster.invariants import check
from webapp.jobs.books import books


class Command(BaseCommand):
    help = "Check that slots, attempts and the usage ledger agree. Exit code 1, with a sentence each, when they do not."

    def handle(self, *args: Any, **options: Any) -> None:
        with connection.cursor() as cursor:  # all of it as of one moment
            cursor.execute("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        read = books()
        violations = check(read)
        if violations:
            raise CommandError("\n".join(violation.sentence for violation in violations))
        held = sum(bool(slot.attempt) for slot in read.slots)
        self.stdout.write(
            f"The books agree: {held} of {len(read.slots)} slots are held by {len(read.attempts)} attempts; "
            f"the ledger has {len(read.ledger)} entries."
        )
