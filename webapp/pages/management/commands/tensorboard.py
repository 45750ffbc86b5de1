import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from webapp.pages.tensorboard.boards import Board
from webapp.pages.tensorboard.keeper import keep


class Command(BaseCommand):
    help = "Keep the TensorBoard of one run or experiment. Started by the web process, never by hand."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("key", help="run-ID or experiment-ID")

    def handle(self, *args: Any, key: str, **options: Any) -> None:
        keep(Board(key), sys.stdin.fileno())
