"""A worker: takes the parameters, gives a gradient, and so on until the server has enough."""

import time

import collective
import torch
from model import Model, batch

import trainmaster
from trainmaster.parameter_server import CODECS, Client, addresses, index


def main() -> None:
    asked, last = trainmaster.hyperparameters(), index() == len(addresses("worker")) - 1
    codec = CODECS[asked.get("codec", "plain")]()
    pause = float(asked.get("straggler_ms", 0)) / 1_000 if last else 0.0
    if asked.get("mode") in collective.MODES:
        collective.work(asked, pause)
        return
    model, client = Model(), Client(addresses("server"), index(), codec=codec)
    random = torch.Generator().manual_seed(index())
    while client.pull(model) is not None:
        x, y = batch(random)
        loss = (model(x) - y).square().mean()
        model.zero_grad()
        loss.backward()
        time.sleep(pause)
        client.push(model, loss.item())
    client.close()
    print(f"worker {index()} has finished")


if __name__ == "__main__":
    main()
