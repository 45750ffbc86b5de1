"""The same model without a server: workers add up their gradients, or train alone and agree every so many steps.

The process that would serve only writes down what the first worker tells it, so that runs of all modes compare.
"""

import time
from collections.abc import Mapping

import torch
import torch.distributed as dist
from model import RATE, Model, batch

import trainmaster
from trainmaster.local_sgd import LocalTraining
from trainmaster.parameter_server import addresses, index

OUTER = {"local-sgd": (1.0, 0.0), "diloco": (0.7, 0.5)}  # rate and momentum of what the workers agree on
MODES = ("all-reduce", *OUTER)


def join(rank: int, workers: int) -> dist.ProcessGroup:
    """The group of the workers, which have the ranks from 1 on."""
    host, port = addresses("server")[0]
    dist.init_process_group("gloo", init_method=f"tcp://{host}:{port}", rank=rank, world_size=1 + workers)
    return dist.new_group(list(range(1, 1 + workers)))


def watch(asked: Mapping[str, object], steps: int) -> None:
    """What the server does."""
    workers = len(addresses("worker"))
    join(0, workers)
    row = torch.zeros(2, dtype=torch.float64)
    for step in range(workers, steps + 1, workers):
        dist.recv(row, 1)
        loss, moved = row.tolist()
        trainmaster.log(step, loss=loss, bytes_moved=moved)  # a step is a gradient, as with the server
    dist.destroy_process_group()
    print(f"{steps // workers} steps of {workers} workers by {asked['mode']}")


def work(asked: Mapping[str, object], pause: float) -> None:
    workers, mode = len(addresses("worker")), str(asked["mode"])
    group, model = join(1 + index(), workers), Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    outer_rate, momentum = OUTER.get(mode, (1.0, 0.0))
    local = LocalTraining(
        model, int(str(asked.get("every", 8))), outer_rate=outer_rate, momentum=momentum, group=group
    )
    random, reduced = torch.Generator().manual_seed(index()), 0
    for _ in range(int(str(asked.get("steps", 20))) // workers):
        x, y = batch(random)
        loss = (model(x) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        time.sleep(pause)
        if mode == "all-reduce":
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad, group=group)
                parameter.grad /= workers
                reduced += parameter.grad.nbytes
        optimizer.step()
        if mode != "all-reduce":
            local.step()
            reduced = local.bytes_reduced
        if index() == 0:  # a ring sends 2 (r - 1)/r of the bytes through each link, and takes as many
            dist.send(torch.tensor([loss.item(), 4 * (workers - 1) * reduced], dtype=torch.float64), 0)
    dist.destroy_process_group()
