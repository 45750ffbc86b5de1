"""`trainmaster completion`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes commands, options and jobs in a shell.

    \b
    bash  trainmaster completion bash > ~/.local/share/bash-completion/completions/trainmaster
    zsh   trainmaster completion zsh > "${fpath[1]}/_trainmaster"
    fish  trainmaster completion fish > ~/.config/fish/completions/trainmaster.fish

    Names of jobs and nodes come from the platform; one that does not answer within a second completes nothing.
    """
    kind = get_completion_class(shell)
    assert kind is not None, "click has all three"
    click.echo(kind(ctx.find_root().command, {}, "trainmaster", "_TRAINMASTER_COMPLETE").source())
