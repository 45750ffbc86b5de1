"""As horovod.torch: each process finds its place in HOROVOD_*, and the others by the rendezvous server."""

import os
import socket
import time
import urllib.error
import urllib.request
from typing import Any

import torch
from torch.distributed import ProcessGroupGloo, TCPStore

_group: Any = None


def _number(name: str) -> int:
    return int(os.environ[f"HOROVOD_{name}"])


def init() -> None:
    global _group
    assert (os.environ["HOROVOD_CONTROLLER"], os.environ["HOROVOD_CPU_OPERATIONS"]) == ("gloo", "gloo")
    assert rank() == _number("CROSS_RANK") * _number("LOCAL_SIZE") + _number("LOCAL_RANK")
    assert _number("CROSS_SIZE") * _number("LOCAL_SIZE") == size() == int(_ask("plan/size"))
    if rank() == 0:
        with socket.socket() as probe:
            probe.bind(("", 0))
            port = probe.getsockname()[1]
        urllib.request.urlopen(urllib.request.Request(_url("global/port"), str(port).encode(), method="PUT"))
    port = int(_ask("global/port"))
    store = TCPStore(os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"], port, size(), rank() == 0)
    _group = ProcessGroupGloo(store, rank(), size())


def _url(key: str) -> str:
    address, port = (os.environ[f"HOROVOD_GLOO_RENDEZVOUS_{name}"] for name in ("ADDR", "PORT"))
    return f"http://{address}:{port}/{key}"


def _ask(key: str) -> bytes:
    while True:
        try:
            with urllib.request.urlopen(_url(key)) as answer:
                return answer.read()
        except urllib.error.HTTPError:
            time.sleep(0.02)


def rank() -> int:
    return _number("RANK")


def size() -> int:
    return _number("SIZE")


def local_rank() -> int:
    return _number("LOCAL_RANK")


def allreduce(tensor: torch.Tensor) -> torch.Tensor:
    total = tensor.clone()
    _group.allreduce([total]).wait()
    return total / size()


def broadcast_parameters(parameters: dict[str, torch.Tensor], root_rank: int) -> None:
    for tensor in parameters.values():
        _group.broadcast(tensor, root_rank).wait()


def DistributedOptimizer(optimizer: torch.optim.Optimizer, named_parameters: Any) -> torch.optim.Optimizer:
    gradients = [parameter for _, parameter in named_parameters]

    def average(*_: Any) -> None:
        for parameter in gradients:
            parameter.grad = allreduce(parameter.grad)

    optimizer.register_step_pre_hook(average)
    return optimizer


def shutdown() -> None:
    global _group
    _group = None
