"""A worker's side: pulls parameters from all servers and pushes gradients to them."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

import torch

from platform_core.aggregation.sharding import shards
from trainmaster.parameter_server import wire
from trainmaster.parameter_server.codecs import Codec, Plain

RETRY_SECONDS = 0.1


class Client:
    """Not thread-safe. A server that is away is waited for, up to `patience` seconds: it comes back from its
    checkpoint, and the step under way counts for nothing.

    `sparse`: names of embeddings of which a step reads and changes some rows only; they are pulled by `rows`.
    """

    def __init__(
        self,
        servers: Sequence[tuple[str, int]],
        worker: int | str,
        *,
        codec: Codec | None = None,
        sparse: Sequence[str] = (),
        attempt: str = "",
        patience: float = 600,
    ) -> None:
        self._servers, self._worker, self._attempt, self._patience = (
            list(servers),
            str(worker),
            attempt,
            patience,
        )
        self._codec, self._sparse = codec or Plain(), frozenset(sparse)
        self._connections: list[socket.socket | None] = [None] * len(servers)
        self._versions = [(0, 0)] * len(servers)  # version and clock of each server, as of the last pull
        self._place: dict[str, int] = {}
        self.bytes_sent = self.bytes_received = 0

    def pull(self, model: torch.nn.Module) -> int | None:
        """Fills the parameters of the model. Waits as long as the mode demands. Returns how many steps this worker has
        made, None once the training has ended."""
        own = dict(model.named_parameters())
        place = self._places(own)
        clocks: list[int] = []
        for server in range(len(self._servers)):
            keys = [name for name in own if place[name] == server and name not in self._sparse]
            answer, tensors = self._ask(server, {"do": "pull", "keys": keys})
            if answer.get("finished"):
                return None
            self._versions[server] = (answer["version"], answer["clock"])
            clocks.append(int(answer["clock"]))
            with torch.no_grad():
                for name, tensor in tensors.items():
                    own[name].copy_(tensor)
        return min(clocks)

    def rows(self, model: torch.nn.Module, places: Mapping[str, torch.Tensor]) -> None:
        """Fills these rows of sparse embeddings."""
        own = dict(model.named_parameters())
        for name, rows in places.items():
            asked = {name: torch.unique(rows)}
            _, tensors = self._ask(self._places(own)[name], {"do": "rows"}, asked)
            with torch.no_grad():
                own[name][asked[name].long()] = tensors[name].to(own[name].device)

    def push(self, model: torch.nn.Module, loss: float = 0.0) -> bool:
        """Sends the gradients, sparse ones as rows. False once the training has ended."""
        own = dict(model.named_parameters())
        place, going_on = self._places(own), True
        for server in range(len(self._servers)):
            parts: dict[str, torch.Tensor] = {}
            for name, parameter in own.items():
                if place[name] == server and parameter.grad is not None:
                    encoded = self._encoded(name, parameter.grad.detach().cpu())
                    parts |= {f"{name}/{part}": tensor for part, tensor in encoded.items()}
            version, clock = self._versions[server]
            asked = {"do": "push", "version": version, "clock": clock, "loss": loss, "serial": uuid4().hex}
            answer, _ = self._ask(server, asked, parts)
            going_on = going_on and not answer["finished"]
        return going_on

    def close(self) -> None:
        for server in range(len(self._servers)):
            self._drop(server)

    def _encoded(self, name: str, gradient: torch.Tensor) -> dict[str, torch.Tensor]:
        if name not in self._sparse:
            return self._codec.encode(name, gradient)
        if gradient.is_sparse:
            whole = gradient.coalesce()
            return {"rows": whole.indices()[0], "values": whole.values()}
        rows = gradient.flatten(1).abs().sum(1).nonzero().flatten()
        return {"rows": rows, "values": gradient[rows]}

    def _places(self, parameters: Mapping[str, torch.Tensor]) -> dict[str, int]:
        if not self._place:
            self._place = shards(
                {name: tensor.numel() for name, tensor in parameters.items()}, len(self._servers)
            )
        return self._place

    def _ask(
        self, server: int, fields: Mapping[str, Any], tensors: wire.Tensors | None = None
    ) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
        deadline = time.monotonic() + self._patience
        while True:
            try:
                connection = self._connected(server)
                self.bytes_sent += wire.send(connection, fields, tensors)
                answer, found, size = wire.receive(connection)
                self.bytes_received += size
                return answer, found
            except OSError:
                self._drop(server)
                if time.monotonic() > deadline:
                    raise
                time.sleep(RETRY_SECONDS)

    def _connected(self, server: int) -> socket.socket:
        connection = self._connections[server]
        if connection is None:
            connection = socket.create_connection(self._servers[server], timeout=max(1.0, self._patience))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            wire.send(connection, {"do": "hello", "worker": self._worker, "attempt": self._attempt})
            self._connections[server] = connection
        return connection

    def _drop(self, server: int) -> None:
        if (connection := self._connections[server]) is not None:
            connection.close()
            self._connections[server] = None
