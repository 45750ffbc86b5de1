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
from trainmaster import structured_logs
from trainmaster.repeated_logs import CountingHandler

LOG_LINE = "%(asctime)s %(levelname)s %(message)s"
EXIT_REFUSED = 3  # the server does not want this node; starting again by itself cannot help
EXIT_CONFIG = 2


@click.command(help="Run the agent of this node: it joins the cluster, trains, and receives models.")
@click.option("--server", metavar="HOST:PORT", help="Address of the platform's gateway.")
@click.option("--token", metavar="TOKEN", help="Bootstrap token, needed to join once.")
@click.option(
    "--data",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the agent's state.",
)
@click.option("--rack", metavar="NAME", help="Rack of this node, for placement.")
@click.option("--block", metavar="NAME", help="Block of racks of this node, for placement.")
@click.option("--hostname", metavar="NAME", help="Name on the pages; by default that of the machine.")
@click.option(
    "--slots", metavar="N", type=int, help="CPU slots to offer instead of the GPUs of this machine."
)
@click.option(
    "--island-slots",
    metavar="N",
    type=int,
    help="Slots in each group of fast-linked GPUs, instead of what NVML reports.",
)
@click.option(
    "--gpu-shares", metavar="N", type=int, help="Slots of each GPU, for replicas that share it; 1 by default."
)
@click.option("--gpu-type", metavar="SLUG", help="GPU type of the slots, instead of the driver's name.")
@click.option(
    "--address",
    metavar="HOST",
    help="Host or IP by which other nodes reach this one; the hostname by default.",
)
@click.option("--transfer-port", metavar="PORT", type=int, help="Port for model transfers; 0: any free one.")
@click.option(
    "--rendezvous-ports", metavar="LOW-HIGH", help="Ports for the rendezvous of jobs; 29500-29999 by default."
)
@click.option(
    "--receive-cap-mib", metavar="N", type=int, help="Cap on incoming models in MiB per second; 0: no cap."
)
@click.option(
    "--send-cap-mib",
    metavar="N",
    type=int,
    help="Cap on models sent to other nodes in MiB per second; 0: no cap.",
)
@click.option(
    "--cache-high",
    metavar="PERCENT",
    type=int,
    help="Disk use above which models are evicted, least recently used first, never active or pinned ones; 90.",
)
@click.option(
    "--cache-low", metavar="PERCENT", type=int, help="Disk use at which eviction stops; 80 by default."
)
@click.option(
    "--stream-disk-mib",
    metavar="N",
    type=int,
    help="Disk for the shards of one attempt whose dataset is streamed, in MiB; 65536 by default.",
)
@click.option(
    "--checkpoint-share",
    metavar="PERCENT",
    type=int,
    help="Share of the link that uploads of checkpoints may take, less while a model moves; 50 by default.",
)
@click.option(
    "--standby-free-mib",
    metavar="N",
    type=int,
    help="Free memory before processes stand by for a job's next attempt, in MiB; 4096 by default, 0: none do.",
)
@click.option(
    "--store-silence-seconds",
    metavar="N",
    type=int,
    help="Seconds without data after which a read from the store is repeated; 5 by default.",
)
@click.option(
    "--hooks",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="Folder of the commands that rollouts may run here, as the agent's user; without it none.",
)
@click.option("--label", metavar="KEY=VALUE", multiple=True, help="Label of this node; repeatable.")
@click.option(
    "--spot",
    is_flag=True,
    help="The provider may reclaim this machine at short notice: sets the label spot=yes.",
)
@click.option(
    "--notice",
    type=click.Choice(["aws", "gcp", "azure"]),
    help="The cloud whose metadata service is polled for a reclaim notice.",
)
@click.option(
    "--notice-url",
    metavar="URL",
    help="URL polled for a reclaim notice: any answer but 404, an empty one, FALSE or NONE is a notice.",
)
@click.option(
    "--notice-seconds",
    metavar="N",
    type=int,
    help="Seconds between the notice and the reclaim; 120 by default, 30 with gcp and azure.",
)
@click.option(
    "--ca",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Certificate of the authority that signed the platform's certificate.",
)
@click.option(
    "--certificate",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Certificate of this node, for other nodes.",
)
@click.option("--key", metavar="FILE", type=click.Path(path_type=Path), help="Private key of --certificate.")
@click.option(
    "--isolation",
    metavar="none|user|containers",
    help="Isolation between jobs: none, a system user for each team (the agent must be root), or containers only.",
)
@click.option("--insecure", is_flag=True, help="Use no TLS; only for a platform on one machine.")
@click.option(
    "--rejoin", is_flag=True, help="Join again as the same node with --token, for a new credential."
)
@click.option(
    "--stop-jobs-on-leave", is_flag=True, help="Stop the jobs of this node when the agent is stopped."
)
@click.option(
    "--dcgm-exporter",
    metavar="URL",
    help="Read profiling counters of GPUs from this dcgm-exporter, as http://127.0.0.1:9400/metrics.",
)
@click.option(
    "--metrics-listen",
    metavar="HOST:PORT",
    help="Serve /metrics of this agent there, for TRAINMASTER_AGENT_METRICS_TOKEN.",
)
@click.option("--log-format", metavar="plain|json", help="Form of log lines; plain by default.")
@click.option("--verbose", is_flag=True, help="Log debug messages.")
def agent(verbose: bool, **flags: object) -> None:
    try:
        config = load(flags)
        _set_up_logging(config.log_format, verbose)
        keep_freed_blocks()
        asyncio.run(run(config))
    except (ConfigError, AlreadyRunning) as error:
        click.echo(str(error), err=True)
        sys.exit(EXIT_CONFIG)
    except Refused as error:
        click.echo(str(error), err=True)
        sys.exit(EXIT_REFUSED)


def _set_up_logging(log_format: str, verbose: bool) -> None:
    handler = CountingHandler(sys.stderr)
    handler.setFormatter(structured_logs.formatter(log_format, "agent", LOG_LINE))
    logging.basicConfig(level=logging.DEBUG if verbose else logging.INFO, handlers=[handler])
    logging.captureWarnings(True)
    for name in ("grpc", "asyncio", "httpx"):  # httpx says something of each range of the store
        logging.getLogger(name).setLevel(logging.WARNING)


if __name__ == "__main__":
    agent()
