from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from platform_core.errors import TrainmasterError
from webapp.accounts import queries, tokens


class Command(BaseCommand):
    help = (
        "Print a new API token of a person, for a team or as an admin, for programs that an operator sets up."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username")
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument("team", nargs="?", default="")
        what.add_argument(
            "--admin", action="store_true", help="for a platform admin: it opens the whole platform"
        )
        parser.add_argument("--name", default="made by an operator")
        parser.add_argument("--days", type=int, default=30)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            actor = queries.actor_of(queries.user(options["username"]))
            name, days = options["name"], options["days"]
            if options["admin"]:
                token = tokens.create_admin_token(actor, name, days)
            else:
                token = tokens.create_token(actor, options["team"], name, days)
        except TrainmasterError as error:
            raise CommandError(error.sentence) from error
        self.stdout.write(token.text)
