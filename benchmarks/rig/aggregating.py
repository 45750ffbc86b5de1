"""One process of `benchmarks.aggregation`: a worker of any way, or the parameter server."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from platform_core.aggregation.cost import Way
from trainmaster.local_sgd import LocalTraining
from trainmaster.parameter_server import CODECS, Client, Mode, Server

BATCH, FEATURES, WIDTH, CLASSES, RATE = 32, 64, 256, 10, 0.1
LOOK_EVERY = 6  # gradients between two looks at the loss


def model() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Linear(FEATURES, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, CLASSES)
    )


def batch(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Classes by a fixed random network."""
    x = torch.randn(BATCH, FEATURES, generator=torch.Generator().manual_seed(seed))
    teacher = torch.randn(FEATURES, CLASSES, generator=torch.Generator().manual_seed(0))
    return x, (x @ teacher).argmax(1)


class Losses:
    """The loss of shared parameters on fixed batches, by samples and seconds."""

    def __init__(self, total: int) -> None:
        self.rows: list[list[float]] = []
        self._test = [
            torch.cat(parts) for parts in zip(*(batch(10**6 + number) for number in range(16)), strict=True)
        ]
        self._total, self.begun = total, 0.0

    def look(self, net: nn.Module, gradients: int) -> None:
        self.begun = self.begun or time.monotonic()
        seconds = time.monotonic() - self.begun
        with torch.no_grad():
            loss = cross_entropy(net(self._test[0]), self._test[1]).item()
        self.rows.append([gradients * BATCH, round(seconds, 3), round(loss, 4)])

    @property
    def seconds(self) -> float:
        return self.rows[-1][1]


def gradient(net: nn.Module, job: dict[str, Any], step: int) -> None:
    """A gradient, as slow as this worker is."""
    until = (
        time.monotonic() + (job["slow_ms"] if job["rank"] == job["workers"] - 1 else job["compute_ms"]) / 1000
    )
    x, y = batch(step * job["workers"] + job["rank"] + 1)
    net.zero_grad()
    loss = cross_entropy(net(x), y)
    loss.backward()  # type: ignore[no-untyped-call]
    time.sleep(max(0.0, until - time.monotonic()))


def serve(job: dict[str, Any], setting: dict[str, Any]) -> dict[str, Any]:
    net, losses = model(), Losses(job["steps"])
    mode = {Way.SYNCHRONOUS: Mode.SYNCHRONOUS, Way.BOUNDED: Mode.BOUNDED, Way.ASYNCHRONOUS: Mode.ASYNCHRONOUS}
    taken = 0
    seen: list[tuple[int, float, dict[str, torch.Tensor]]] = []

    def observe(_update: object) -> None:
        nonlocal taken
        taken += 1
        if taken % LOOK_EVERY == 0 or taken == job["steps"]:
            copies = {name: tensor.clone() for name, tensor in server.parameters.items()}
            seen.append((taken, time.monotonic(), copies))

    server = Server(
        dict(net.named_parameters()), lambda parameters: torch.optim.SGD(parameters, lr=RATE),
        workers=job["workers"], steps=job["steps"], mode=mode[setting["way"]], bound=setting["bound"], observe=observe,
    )  # fmt: skip
    listener = server.listen(job["server"], job["port"])
    while len(server.joined) < job["workers"] and not server.wait(0.05):
        pass
    losses.look(net, 0)
    while not server.wait(0.5):
        pass
    listener.shutdown()
    for gradients, at, parameters in seen:
        net.load_state_dict(parameters)
        losses.look(net, gradients)
        losses.rows[-1][1] = round(at - losses.begun, 3)
    return {
        "losses": losses.rows, "seconds": losses.seconds, "staleness": dict(sorted(server.staleness.items())),
        "bytes_moved": server.bytes_in + server.bytes_out,
    }  # fmt: skip


def work(job: dict[str, Any], setting: dict[str, Any]) -> None:
    client, net = (
        Client([(job["server"], job["port"])], job["rank"], codec=CODECS[setting["codec"]]()),
        model(),
    )
    while (step := client.pull(net)) is not None:
        gradient(net, job, step)
        client.push(net)
    client.close()


def reduce(job: dict[str, Any], setting: dict[str, Any]) -> dict[str, Any]:
    dist.init_process_group(
        "gloo",
        init_method=f"tcp://{job['server']}:{job['port']}",
        rank=job["rank"],
        world_size=job["workers"],
    )
    net, losses, workers = model(), Losses(job["steps"]), job["workers"]
    size = sum(parameter.nbytes for parameter in net.parameters())
    local = setting["way"] == Way.LOCAL
    agree = LocalTraining(
        net, setting["every"], outer_rate=setting["outer_rate"], momentum=setting["momentum"]
    )
    trained = net if local else DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE)
    dist.barrier()
    losses.look(net, 0)
    steps = job["steps"] // workers
    for step in range(steps):
        gradient(trained, job, step)
        optimizer.step()
        agreed = agree.step() if local else True
        if agreed and ((step + 1) % max(1, LOOK_EVERY // workers) == 0 or step + 1 == steps):
            losses.look(net, (step + 1) * workers)
    if local and steps % setting["every"]:
        losses.look(net, steps * workers)
    reduced = agree.bytes_reduced if local else size * steps
    dist.destroy_process_group()
    # A ring sends 2 (r - 1)/r of the bytes through each link, and takes as many.
    return {
        "losses": losses.rows, "seconds": losses.seconds, "staleness": {},
        "bytes_moved": round(2 * 2 * (workers - 1) * reduced),
    }  # fmt: skip


def main(job: dict[str, Any]) -> None:
    torch.set_num_threads(1)
    setting = job["setting"]
    answer: dict[str, Any] = {}
    if setting["way"] in (Way.ALL_REDUCE, Way.LOCAL):
        answer = reduce(job, setting)
    elif job["role"] == "server":
        answer = serve(job, setting)
    else:
        work(job, setting)
    if job["rank"] <= 0 and answer:
        size = sum(parameter.nbytes for parameter in model().parameters())
        Path(job["answer"]).write_text(json.dumps({**answer, "size": size, "batch": BATCH}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
