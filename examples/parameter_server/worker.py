"""A worker: asks the server for the parameters, sends it a gradient, and so on until the server has enough."""

import json
import os
import socket
import time

import torch
from protocol import receive, send

import trainmaster

WANTED = torch.arange(8.0) / 8  # what the model shall learn


def connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    while True:
        try:
            return socket.create_connection((host.strip("[]"), int(port)))
        except ConnectionRefusedError:
            time.sleep(0.1)  # the server is still starting


def main() -> None:
    server = json.loads(os.environ["TRAINMASTER_ROLES"])["server"][0]
    index = int(os.environ["TRAINMASTER_ROLE_INDEX"])
    random = torch.Generator().manual_seed(index)
    with connect(server) as connection:
        # A stop reaches all roles; the server saves and sends its workers home.
        while not (answer := receive(connection)).get("finished") and not trainmaster.should_stop():
            weights = torch.tensor(answer["weights"], requires_grad=True)
            x = torch.randn(16, 8, generator=random)
            loss = ((x @ weights - x @ WANTED) ** 2).mean()
            loss.backward()
            gradient = weights.grad.tolist()
            send(connection, {"gradient": gradient, "step": answer["step"], "loss": loss.item()})
    print(f"worker {index} has finished")


if __name__ == "__main__":
    main()
