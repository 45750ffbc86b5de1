from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from webapp.events.models import Event
from webapp.events.queries import story

KINDS = {"job": "job", "node": "node", "dep": "deployment"}


class Command(BaseCommand):
    help = "Print everything that happened to a job, node or deployment, oldest first."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("id", help="an id such as job-… or node-…, or kind:id for anything else")

    def handle(self, *args: Any, **options: Any) -> None:
        name: str = options["id"]
        subject = name if ":" in name else f"{KINDS.get(name.split('-')[0], 'job')}:{name}"
        events = story(subject, limit=100_000)
        if not events:
            raise CommandError(f"Nothing is known of {subject}.")
        for event in events:
            at = datetime.fromtimestamp(event.at_ms / 1000, UTC).isoformat(timespec="milliseconds")
            self.stdout.write(f"{at}  {event.kind:<20} {event.actor:<24} {event.cause}{_trace(event)}")


def _trace(event: Event) -> str:
    trace = event.data.get("trace")
    return f"  [trace {trace}]" if trace else ""
