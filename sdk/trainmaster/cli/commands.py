"""The group of all commands: ours, and those that other packages add by the entry point `trainmaster.commands`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import IO, Any

import click

from platform_core.errors import CATALOGUE, TrainmasterError
from platform_core.jobs.spec import SpecError
from trainmaster.answers import UnexpectedAnswer
from trainmaster.client import ApiError, ClientError
from trainmaster.environment import client_environment

ENTRY_POINTS = "trainmaster.commands"


class Failure(click.ClickException):
    """One sentence on stderr, below it the problem of each field; exit code 1."""

    def __init__(self, sentence: str, problems: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(sentence)
        self.problems = problems

    def show(self, file: IO[Any] | None = None) -> None:
        stream = file or sys.stderr
        click.echo(f"Error: {self.message}", file=stream)
        for field, sentence in self.problems:
            named = not field or sentence.startswith(field)
            click.echo(f"  {sentence}" if named else f"  {field}: {sentence}", file=stream)


class Commands(click.Group):
    """Commands of other packages are imported when they are called, not before: `up` imports the whole server.

    `sections` has our commands by their heading in the help, `added` the help of commands that other packages add.
    """

    def __init__(
        self, sections: Mapping[str, Sequence[click.Command]], added: Mapping[str, str], **more: Any
    ) -> None:
        super().__init__(commands=[command for section in sections.values() for command in section], **more)
        self.sections, self.added = sections, added

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *_entry_points()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        entry = _entry_points().get(cmd_name)
        return _load(entry) if entry is not None else None

    def shell_complete(
        self, ctx: click.Context, incomplete: str
    ) -> list[click.shell_completion.CompletionItem]:
        """Names without loading the commands that other packages add."""
        items = list(click.Command.shell_complete(self, ctx, incomplete))
        known = {name: command.get_short_help_str() for name, command in self.commands.items()}
        known = {name: self.added.get(name, "") for name in _entry_points()} | known
        items += [
            click.shell_completion.CompletionItem(name, help=known[name])
            for name in sorted(known)
            if name.startswith(incomplete)
        ]
        return items

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in self.sections.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(command.name or "", command.get_short_help_str(80)) for command in commands]
                )
        if added := sorted(_entry_points()):
            with formatter.section("Operators"):
                formatter.write_dl(
                    [(name, self.added.get(name, f"See trainmaster {name} --help.")) for name in added]
                )

    def invoke(self, ctx: click.Context) -> Any:
        if client_environment().no_color:
            ctx.color = False
        try:
            return super().invoke(ctx)
        except ApiError as error:
            raise Failure(_sentence(error), error.problems) from error
        except SpecError as error:
            problems = tuple((problem.field, problem.sentence) for problem in error.problems)
            raise Failure("The job description is not valid.", problems) from error
        except (ClientError, UnexpectedAnswer, TrainmasterError) as error:
            raise Failure(str(error)) from error
        except OSError as error:
            if error.filename is None:  # no file of the user, such as a pipe that was closed: click knows
                raise
            raise Failure(f"{error.filename}: {error.strerror}.") from error


def _sentence(error: ApiError) -> str:
    if error.status == 401:
        return f"{error} Run `trainmaster login`."
    kind = CATALOGUE.get(error.code)
    # The sentence of such a kind repeats its problems in one line; they are listed below it.
    if kind is not None and error.problems and "{problems}" in kind.sentence:
        return f"{kind.title}."
    return str(error)


def _entry_points() -> dict[str, EntryPoint]:
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
        raise Failure(f"`trainmaster {entry.name}` is broken: {entry.value} is not a command.")
    return command
