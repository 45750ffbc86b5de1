"""A worker: takes the parameters, gives a gradient, and so on until the server has enough."""

import torch
from model import Model, batch

from trainmaster.parameter_server import Client, addresses, index


def main() -> None:
    model, client = Model(), Client(addresses("server"), index())
    random = torch.Generator().manual_seed(index())
    while client.pull(model) is not None:
        x, y = batch(random)
        loss = (model(x) - y).square().mean()
        model.zero_grad()
        loss.backward()
        client.push(model, loss.item())
    client.close()
    print(f"worker {index()} has finished")


if __name__ == "__main__":
    main()
