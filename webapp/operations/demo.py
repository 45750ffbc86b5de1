"""`trainmaster demo`: a cluster on this machine, people in it, and a journey through the product."""

import signal
import sys
import time
from pathlib import Path

import click

from webapp.operations import machine
from webapp.operations.cast import CAST
from webapp.operations.journey import travel
from webapp.operations.platform_process import PlatformError, PlatformProcess
from webapp.operations.traveller import JourneyFailedError


@click.command()
@click.option(
    "--once",
    is_flag=True,
    help="Stop the cluster after the tour; exit code 0 means that all of it succeeded.",
)
@click.option(
    "--dir", "folder", default="var/demo", show_default=True, type=Path, help="Folder of all state."
)
@click.option(
    "--port",
    default=0,
    type=click.IntRange(0, 65535),
    help="Port of the web server; by default that of the last start, or 8000.",
)
def demo(once: bool, folder: Path, port: int) -> None:
    """Start a cluster on this machine with people, jobs and a deployment in it.

    It has one node with the GPUs of this machine, or four nodes with CPU slots. Without --once the dashboard stays up
    afterwards, until Ctrl-C.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    began = time.monotonic()
    try:
        platform = PlatformProcess.start(folder.absolute(), "--port", str(port))
    except PlatformError as error:
        raise click.ClickException(str(error)) from error
    try:
        click.echo(f"The dashboard answers after {time.monotonic() - began:.0f} s.")
        platform.manage("seed_demo", "--slots", "0")  # quotas follow when the nodes have joined
        platform.manage("seed_runs")
        print_logins(platform.url)
        token = platform.manage("token", "bob", "vision", "--name", "demo").strip()
        travel(
            platform.url, token, click.echo, folder.absolute() / "scratch",
            nodes=machine.nodes(None, None, machine.gpus()).agents,
            share=lambda gpu_type, slots: platform.manage(
                "seed_demo", "--gpu-type", gpu_type, "--slots", str(slots)
            ),
        )  # fmt: skip
        click.echo(f"The journey succeeded after {time.monotonic() - began:.0f} s.")
        if not once:
            print_logins(platform.url)
            click.echo("Ctrl-C stops everything.")
            platform.process.wait()
            raise click.ClickException("The platform has ended by itself.")
    except (PlatformError, JourneyFailedError) as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        click.echo()
    finally:
        platform.stop(training_too=True)


def print_logins(url: str) -> None:
    click.echo(f"\n  {url}\n")
    for person in CAST:
        click.echo(f"  {person.username:<8} password {person.password:<12} {person.story}")
    click.echo()
