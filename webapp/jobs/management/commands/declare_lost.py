"""For operators: an attempt that no node will ever say to have stopped."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from platform_core.errors import TrainmasterError
from webapp.accounts import queries as accounts
from webapp.jobs import lost_members


class Command(BaseCommand):
    help = "Take what a job that is being stopped holds on nodes that do not answer as lost, and drain these nodes."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("job")
        parser.add_argument("--by", required=True, help="the platform admin who says so, for the audit log")
        parser.add_argument("--because", default="", help="why, for the audit log")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            actor = accounts.actor_of(accounts.user(options["by"]))
            nodes = lost_members.declare_lost(actor, options["job"], options["because"])
        except TrainmasterError as error:
            raise CommandError(error.sentence) from error
        self.stdout.write(lost_members.in_words(nodes))
