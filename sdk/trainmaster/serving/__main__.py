"""`python -m trainmaster.serving [FOLDER]`: serves one model until it is told to stop, then answers what it has."""

from __future__ import annotations

import argparse
import logging
import sys
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import uvicorn

from platform_core.serving.batching import BatchLimits
from platform_core.serving.runtimes import RuntimeName
from trainmaster.environment import ReplicaEnvironment, replica_environment
from trainmaster.serving import gpu_share, vllm
from trainmaster.serving.contract import Runtime
from trainmaster.serving.engine import Engine
from trainmaster.serving.loading import load, runtime_of
from trainmaster.serving.runtimes.custom import LoadError
from trainmaster.serving.server import ModelServer, Served

log = logging.getLogger("trainmaster.serving")
DRAIN_SECONDS = 20
# The model's thread asks for the interpreter after each operation, and waits at most so long; the default is 5 ms.
SWITCH_SECONDS = 0.0002


def main(arguments: list[str], environment: ReplicaEnvironment) -> int:
    options = parse(arguments, environment)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stdout)
    served = Served(options.name, options.version, environment.token)
    try:
        if options.runtime == RuntimeName.VLLM:
            return serve_vllm(options, served, environment.gpu_share)
        options.runtime = runtime_of(Path(options.folder), RuntimeName(options.runtime), options.entry)
        gpu_share.hold(environment.gpu_share, options.runtime)
        if options.gpus > 1 and not options.ranked:
            start_ranks(options, arguments)
        return serve(options, served)
    except (LoadError, ValueError) as error:
        return refused(f"{type(error).__name__}: {error}")
    except RuntimeError as error:
        if sentence := gpu_share.refusal(environment.gpu_share, error):
            return refused(f"{type(error).__name__}: {sentence}")
        raise


def refused(line: str) -> int:
    """The last line of its output, in a form that the agent quotes as the reason of its end."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
    return 2


def serve(options: argparse.Namespace, served: Served) -> int:
    limits = BatchLimits(options.max_batch, options.max_tokens, options.queue)
    runtime = loaded(options)
    if runtime is None:  # this process has followed rank 0 to its end
        return 0
    sys.setswitchinterval(SWITCH_SECONDS)
    server = ModelServer(Engine(runtime, limits), served)
    config = configured(server, options)
    log.info("serving %s version %s on port %s", served.name, served.version, options.port)
    listen = f"{options.host}:{options.grpc_port}" if options.grpc_port else ""
    program(config, server, listen).run()
    return 0


def loaded(options: argparse.Namespace) -> Runtime | None:
    """Here, or on all ranks."""
    one = partial(load, Path(options.folder), RuntimeName(options.runtime), options.entry, options.compile)
    if not options.ranked:
        return one()
    from trainmaster.serving import ranks  # which imports torch

    return ranks.join(one)


def serve_vllm(options: argparse.Namespace, served: Served, share: float) -> int:
    running = vllm.start(Path(options.folder), served.name, options.gpus, share)
    log.info("serving %s version %s by vLLM on port %s", served.name, served.version, options.port)
    uvicorn.Server(configured(vllm.VllmServer(running, served), options)).run()
    return 0


def start_ranks(options: argparse.Namespace, arguments: list[str]) -> NoReturn:
    """The address is given on: the ranks have that of torchrun in their environment."""
    try:
        from trainmaster.serving import ranks
    except ModuleNotFoundError as error:
        raise LoadError(f"A replica on {options.gpus} GPUs needs {error.name}; install it.") from error
    ranks.start(options.gpus, [*arguments, "--host", options.host, "--port", str(options.port)])


def configured(application: Any, options: argparse.Namespace) -> uvicorn.Config:
    return uvicorn.Config(
        application, host=options.host, port=options.port, access_log=False, log_level="warning", lifespan="on",
        timeout_graceful_shutdown=DRAIN_SECONDS, timeout_keep_alive=75, backlog=4096,
    )  # fmt: skip


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
    parser.add_argument("--compile", action="store_true", help="by torch.compile, runtime eager or exported")
    parser.add_argument("--gpus", type=int, default=1, help="over which the model divides itself")
    parser.add_argument("--ranked", action="store_true", help=argparse.SUPPRESS)  # torchrun has started it
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
