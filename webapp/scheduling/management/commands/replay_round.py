"""Makes a recorded decision again, and says whether it is the same to the byte."""

from difflib import unified_diff
from json import dumps, loads
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from webapp.scheduling import rounds
from webapp.scheduling.models import Round


class Command(BaseCommand):
    help = "Make a recorded scheduling round again from what was known then. Exit code 1 when it differs."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("round", nargs="?", type=int, help="its number; else the newest")
        parser.add_argument("--save", type=Path, help="write what was known then, as JSON, into this file")

    def handle(self, *args: Any, round: int | None, save: Path | None, **options: Any) -> None:
        rows = Round.objects.order_by("-id") if round is None else Round.objects.filter(id=round)
        row = rows.first()
        if row is None:
            kept = list(Round.objects.order_by("id").values_list("id", flat=True))
            reservations = f"those kept go from {kept[0]} to {kept[-1]}" if kept else "none is kept"
            raise CommandError(
                f"no round {'' if round is None else round} is recorded: {reservations}, for a day"
            )
        again = rounds.replay(row)
        if save is not None:
            save.write_bytes(rounds.as_json(again.known))
        summary = f"Round {row.id}: {row.pending} waited, {row.started} started, {row.preempted} preempted."
        if again.same:
            self.stdout.write(f"{summary} Made again from what was known then, it is the same to the byte.")
            return
        lines = unified_diff(_lines(again.then), _lines(again.now), "then", "now", lineterm="", n=2)
        self.stdout.write("\n".join(lines))
        raise CommandError(f"{summary} Made again, it differs as shown: the engine or its version changed.")


def _lines(plan: bytes) -> list[str]:
    return dumps(loads(plan), indent=1).splitlines()
