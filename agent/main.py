"""`trainmaster agent`: the command line of the node's program."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

import click

from agent.channel import Refused
from agent.config import ConfigError, load
from agent.program import AlreadyRunning, run
from agent.transfer.peers.memory import keep_freed_blocks

EXIT_REFUSED = 3  # the server does not want this node; starting again by itself cannot help
EXIT_CONFIG = 2


@click.command(help="Run the agent of this node: it joins the cluster, trains, and moves models.")
@click.option("--server", metavar="HOST:PORT", help="The gateway of the platform.")
@click.option("--token", metavar="TOKEN", help="Bootstrap token; needed once, to join.")
@click.option(
    "--data", metavar="DIR", type=click.Path(file_okay=False, path_type=Path), help="The agent's folder."
)
@click.option("--rack", metavar="NAME", help="Rack of this node, for placement.")
@click.option("--block", metavar="NAME", help="Block of racks of this node, for placement.")
@click.option("--hostname", metavar="NAME", help="Name shown on the pages; the machine's by default.")
@click.option("--slots", metavar="N", type=int, help="CPU slots to offer instead of what the hardware has.")
@click.option(
    "--island-slots",
    metavar="N",
    type=int,
    help="So many neighbours each are linked, instead of what NVML says.",
)
@click.option(
    "--gpu-type", metavar="SLUG", help="Type of the slots, when the name from the driver does not do."
)
@click.option(
    "--address", metavar="HOST", help="Host or IP that other nodes reach; the host name by default."
)
@click.option("--transfer-port", metavar="PORT", type=int, help="Port for moving models; 0 takes a free one.")
@click.option("--rendezvous-ports", metavar="LOW-HIGH", help="Ports that jobs may use to meet; 29500-29999.")
@click.option(
    "--receive-cap-mib", metavar="N", type=int, help="MiB per second of models coming in; 0 is no cap."
)
@click.option(
    "--send-cap-mib", metavar="N", type=int, help="MiB per second passed on to other nodes; 0 is no cap."
)
@click.option(
    "--cache-high",
    metavar="PERCENT",
    type=int,
    help="Disk in use above which models that are neither active nor pinned go, the longest unused first; 90.",
)
@click.option("--cache-low", metavar="PERCENT", type=int, help="Until the disk in use is this; 80.")
@click.option(
    "--store-silence-seconds",
    metavar="N",
    type=int,
    help="Seconds without a byte after which a range of the store is asked for anew; 5.",
)
@click.option(
    "--hooks",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="Commands that rollouts may run here, as the agent's user; without it they run nothing.",
)
@click.option("--label", metavar="KEY=VALUE", multiple=True, help="Label of this node; may be repeated.")
@click.option("--spot", is_flag=True, help="The machine may be taken away at short notice: label spot=yes.")
@click.option(
    "--notice-url",
    metavar="URL",
    help="Asked every few seconds whether the machine is taken away: anything but 404, nothing, FALSE or NONE is yes.",
)
@click.option("--notice-seconds", metavar="N", type=int, help="How long after the notice it goes; 120.")
@click.option("--ca", metavar="FILE", type=click.Path(path_type=Path), help="Certificate of the platform.")
@click.option("--certificate", metavar="FILE", type=click.Path(path_type=Path), help="Shown to other nodes.")
@click.option("--key", metavar="FILE", type=click.Path(path_type=Path), help="Private key of --certificate.")
@click.option(
    "--isolation",
    metavar="none|user|containers",
    help="Between jobs: none, a system user for each team (the agent is root), or containers only.",
)
@click.option("--insecure", is_flag=True, help="No TLS. For the platform on one machine only.")
@click.option(
    "--rejoin", is_flag=True, help="Join again with --token, as the same node, for a new credential."
)
@click.option("--stop-jobs-on-leave", is_flag=True, help="When the agent is stopped, its jobs are too.")
@click.option("--verbose", is_flag=True, help="Say more in the log.")
def agent(verbose: bool, **flags: object) -> None:
    logging.basicConfig(
        level=logging.DEBUG if verbose else logging.INFO,
        format="%(asctime)s %(levelname)s %(message)s",
        stream=sys.stderr,
    )
    for name in ("grpc", "asyncio", "httpx"):  # httpx says something of each range of the store
        logging.getLogger(name).setLevel(logging.WARNING)
    keep_freed_blocks()
    try:
        asyncio.run(run(load(flags)))
    except (ConfigError, AlreadyRunning) as error:
        click.echo(str(error), err=True)
        sys.exit(EXIT_CONFIG)
    except Refused as error:
        click.echo(str(error), err=True)
        sys.exit(EXIT_REFUSED)


if __name__ == "__main__":
    agent()
