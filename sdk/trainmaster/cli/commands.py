"""The group of all commands: ours, and those that other packages add by the entry point `trainmaster.commands`."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint, entry_points
from typing import IO, Any

import click

from platform_core.errors import TrainmasterError
from platform_core.jobs.spec import SpecError
from trainmaster.answers import UnexpectedAnswer
from trainmaster.client import ApiError, ClientError

ENTRY_POINTS = "trainmaster.commands"


class Failure(click.ClickException):
    """One sentence on stderr, below it what is wrong with which field; exit code 1."""

    def __init__(self, sentence: str, problems: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(sentence)
        self.problems = problems

    def show(self, file: IO[Any] | None = None) -> None:
        stream = file or sys.stderr
        click.echo(f"Error: {self.message}", file=stream)
        for field, sentence in self.problems:
            click.echo(f"  {field}: {sentence}" if field else f"  {sentence}", file=stream)


class Commands(click.Group):
    """Commands of other packages are imported when they are called, not before: `up` brings the whole server."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *_added()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        entry = _added().get(cmd_name)
        return _load(entry) if entry is not None else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, self.commands[name].get_short_help_str(70)) for name in sorted(self.commands)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
        added = sorted(_added().keys() - self.commands.keys())
        if added:
            with formatter.section("For operators"):
                formatter.write_dl([(name, f"see `trainmaster {name} --help`") for name in added])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ApiError as error:
            raise Failure(_sentence(error), error.problems) from error
        except SpecError as error:
            problems = tuple((problem.field, problem.sentence) for problem in error.problems)
            raise Failure("The job description is not valid.", problems) from error
        except (ClientError, UnexpectedAnswer, TrainmasterError) as error:
            raise Failure(str(error)) from error


def _sentence(error: ApiError) -> str:
    if error.status == 401:
        return f"{error} Run `trainmaster login`."
    # The summary repeats its problems in one line; below it they stand one by one.
    return (
        "The job description is not valid." if error.code == "spec_invalid" and error.problems else str(error)
    )


def _added() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}


def _load(entry: EntryPoint) -> click.Command:
    try:
        command = entry.load()
    except ImportError as error:
        extra = "agent" if entry.name == "agent" else "server"
        raise Failure(
            f"`trainmaster {entry.name}` needs more than is installed here ({error}): "
            f"pip install 'trainmaster[{extra}]'"
        ) from error
    if not isinstance(command, click.Command):
        raise Failure(f"`trainmaster {entry.name}` is broken: {entry.value} is no command.")
    return command
