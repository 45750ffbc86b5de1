"""`trainmaster`: the command line. Each file has the commands of one topic."""

from trainmaster.cli.group import main

__all__ = ["main"]
