"""`python -m trainmaster.serving [FOLDER]`: serves one model until it is told to stop, then answers what it has."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

import uvicorn

from platform_core.serving.batching import BatchLimits
from platform_core.serving.runtimes import RuntimeName
from trainmaster.environment import ReplicaEnvironment, replica_environment
from trainmaster.serving.engine import Engine
from trainmaster.serving.loading import load
from trainmaster.serving.runtimes.custom import LoadError
from trainmaster.serving.server import ModelServer, Served

log = logging.getLogger("trainmaster.serving")
DRAIN_SECONDS = 20
# The model's thread asks for the interpreter after each operation, and waits at most so long; the default is 5 ms.
SWITCH_SECONDS = 0.0002


def main(arguments: list[str], environment: ReplicaEnvironment) -> int:
    options = parse(arguments, environment)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stdout)
    try:
        limits = BatchLimits(options.max_batch, options.max_tokens, options.queue)
        runtime = load(Path(options.folder), RuntimeName(options.runtime), options.entry)
    except (LoadError, ValueError) as error:
        log.error("%s", error)
        return 2
    sys.setswitchinterval(SWITCH_SECONDS)
    served = Served(options.name, options.version, environment.token)
    server = ModelServer(Engine(runtime, limits), served)
    config = uvicorn.Config(
        server, host=options.host, port=options.port, access_log=False, log_level="warning", lifespan="on",
        timeout_graceful_shutdown=DRAIN_SECONDS, timeout_keep_alive=75, backlog=4096,
    )  # fmt: skip
    log.info("serving %s version %s on port %s", served.name, served.version, options.port)
    listen = f"{options.host}:{options.grpc_port}" if options.grpc_port else ""
    program(config, server, listen).run()
    return 0


def program(config: uvicorn.Config, server: ModelServer, grpc_listen: str) -> uvicorn.Server:
    """gRPC is imported where it is asked for: a laptop may serve without it."""
    if not grpc_listen:
        return uvicorn.Server(config)
    from trainmaster.serving.grpc_door import BothDoors

    return BothDoors(config, server, grpc_listen)


def parse(arguments: list[str], environment: ReplicaEnvironment) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m trainmaster.serving", description=__doc__)
    folder = str(environment.model or "")
    parser.add_argument(
        "folder", nargs="?", default=folder, help="of the model; on a node the one that was fetched"
    )
    parser.add_argument("--runtime", default="auto", choices=[name.value for name in RuntimeName])
    parser.add_argument("--entry", default="", help="module:name, or the file to load")
    parser.add_argument("--name", default="model")
    parser.add_argument("--version", default="1")
    parser.add_argument("--host", default=environment.host, help="address to listen on")
    parser.add_argument("--port", type=int, default=environment.port)
    parser.add_argument("--grpc-port", type=int, default=0, help="of the Open Inference Protocol; 0: none")
    parser.add_argument("--max-batch", type=int, default=32, help="rows that run together")
    parser.add_argument("--max-tokens", type=int, default=0, help="of a padded batch; 0: no bound")
    parser.add_argument("--queue", type=int, default=256, help="requests that may wait")
    options = parser.parse_args(arguments)
    if not options.folder:
        parser.error("name the folder of the model")
    return options


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], replica_environment()))
