"""Makes the people, teams and quotas of the demonstration; what exists already stays as it is."""

from collections.abc import Callable
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from platform_core.errors import TrainmasterError
from webapp.accounts import services as accounts
from webapp.accounts.models import Role
from webapp.accounts.permissions import SYSTEM
from webapp.operations.cast import CAST, DEPARTMENTS, DOLLARS_PER_HOUR, QUOTAS, SLOTS, TEAMS
from webapp.quotas import services as quotas


class Command(BaseCommand):
    help = "Make the people, teams and quotas of the demonstration."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--gpu-type", default="cpu", help="the type of slot that the quotas are for")
        parser.add_argument(
            "--slots", type=int, default=SLOTS, help="of this type, which the teams share; 0: no quotas yet"
        )

    def handle(self, *args: Any, gpu_type: str, slots: int, **options: Any) -> None:
        for slug, (name, weight) in DEPARTMENTS.items():
            unless_there(accounts.create_department, SYSTEM, slug, name, weight)
        for slug, (name, department) in TEAMS.items():
            unless_there(accounts.create_team, SYSTEM, slug, name, department=department)
        for person in CAST:
            names = {"full_name": person.full_name, "is_admin": not person.team}
            unless_there(accounts.create_user, SYSTEM, person.username, person.password, **names)
            if person.team:
                accounts.set_role(SYSTEM, person.team, person.username, Role(person.role))
        for team, (guaranteed, maximum) in QUOTAS.items() if slots else ():
            limits = {
                "guaranteed": guaranteed * slots // SLOTS,
                "maximum": max(1, maximum * slots // SLOTS),
                "queue_beyond": team != "vision",
            }
            unless_there(
                quotas.edit_quota, SYSTEM, team, gpu_type, **limits, version=0, cause="demonstration"
            )
        quotas.set_price(SYSTEM, gpu_type, int(DOLLARS_PER_HOUR * 1_000_000))


def unless_there(make: Callable[..., object], *args: object, **names: object) -> None:
    try:
        make(*args, **names)
    except TrainmasterError as error:
        if error.code not in {"duplicate_name", "stale_version"}:
            raise
