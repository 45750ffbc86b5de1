"""One server: its share of the parameters, the optimizer of them, and the gate that workers pass."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

import torch

from platform_core.aggregation.gate import Gate
from platform_core.aggregation.histories import Update
from platform_core.aggregation.sharding import shards
from trainmaster.parameter_server import codecs, wire

MakeOptimizer = Callable[[list[torch.Tensor]], torch.optim.Optimizer]
HELLO_SECONDS = 30


class Mode(StrEnum):
    SYNCHRONOUS = "synchronous"  # the mean of all workers' gradients, as all-reduce makes it
    BOUNDED = "stale-synchronous"  # each gradient at once; no worker more than `bound` steps ahead
    ASYNCHRONOUS = "asynchronous"  # each gradient at once


class Server:
    """Thread-safe. `parameters`: all of the model, of which it keeps those that `shards` gives to server `number`.

    `workers`: how many share a step. In the modes that apply each gradient at once, each counts for that share of it,
    so that equal samples move the parameters equally far. `steps`: gradients to take before the training has ended.
    `state_dict()` has all that a new server needs to go on; a worker that repeats a push is answered and not counted
    twice.
    """

    def __init__(
        self,
        parameters: Mapping[str, torch.Tensor],
        optimizer: MakeOptimizer,
        *,
        workers: int,
        mode: Mode = Mode.SYNCHRONOUS,
        bound: int = 0,
        steps: int = 0,
        number: int = 0,
        servers: int = 1,
        attempt: str = "",
        observe: Callable[[Update], None] = lambda update: None,
    ) -> None:
        place = shards({name: tensor.numel() for name, tensor in parameters.items()}, servers)
        self.parameters = {
            name: tensor.detach().clone() for name, tensor in parameters.items() if place[name] == number
        }
        self.mode, self.workers, self.steps, self.attempt = mode, workers, steps, attempt
        self.version = 0
        self.staleness: Counter[int] = Counter()  # updates by how many others they had missed
        self.loss = 0.0
        self.bytes_in = self.bytes_out = 0
        bounds = {Mode.SYNCHRONOUS: 0, Mode.BOUNDED: bound, Mode.ASYNCHRONOUS: None}
        self._gate = Gate(bounds[mode])
        self._taken = 0
        self._pending: dict[str, tuple[int, int, dict[str, torch.Tensor]]] = {}
        self._optimizer = optimizer(list(self.parameters.values()))
        self._changed = threading.Condition()
        self._stopping = False
        self._connections: dict[str, socket.socket] = {}
        self._joined: set[str] = set()
        self._last_push: dict[str, str] = {}
        self._observe = observe

    @property
    def finished(self) -> bool:
        return self._stopping or 0 < self.steps <= self._taken

    @property
    def joined(self) -> frozenset[str]:
        """The workers that have come so far."""
        return frozenset(self._joined)

    def stop(self) -> None:
        """Workers that wait are told that the training has ended."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def wait(self, seconds: float) -> bool:
        """Until something has changed, or so long. True once the training has ended and all workers have left."""
        with self._changed:
            if not (self.finished and not self._gate.clocks):
                self._changed.wait(seconds)
            return self.finished and not self._gate.clocks

    def listen(self, host: str = "", port: int = 0) -> socketserver.ThreadingTCPServer:
        """Serves workers in threads of its own from now on. `shutdown` and `server_close` of what it returns end it."""
        parent = self

        class Connection(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                parent._serve(self.request)

        class Listener(socketserver.ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

        listener = Listener((host, port), Connection)
        threading.Thread(target=listener.serve_forever, daemon=True).start()
        return listener

    def state_dict(self) -> dict[str, Any]:
        with self._changed:
            return {
                "parameters": {name: tensor.clone() for name, tensor in self.parameters.items()},
                "optimizer": self._optimizer.state_dict(),
                "version": self.version,
                "taken": self._taken,
            }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        with self._changed, torch.no_grad():
            for name, tensor in state["parameters"].items():
                self.parameters[name].copy_(tensor)
            self._optimizer.load_state_dict(state["optimizer"])
            self.version, self._taken = int(state["version"]), int(state["taken"])

    def _serve(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        worker = ""
        try:
            connection.settimeout(HELLO_SECONDS)
            hello, _, _ = wire.receive(connection)
            connection.settimeout(None)
            if hello.get("do") != "hello" or hello.get("attempt") != self.attempt:
                return
            worker = str(hello["worker"])
            self._join(worker, connection)
            while True:
                asked, tensors, size = wire.receive(connection)
                self.bytes_in += size
                fields, answer = self._answer(worker, asked, tensors)
                self.bytes_out += wire.send(connection, fields, answer)
        except (ConnectionError, TimeoutError, OSError):
            pass
        finally:
            if worker:
                self._leave(worker, connection)

    def _answer(
        self, worker: str, asked: Mapping[str, Any], tensors: dict[str, torch.Tensor]
    ) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
        match asked["do"]:
            case "pull":
                return self._pull(worker, asked.get("keys"))
            case "rows":
                return self._rows(tensors)
            case "push":
                return self._push(worker, asked, tensors), {}
        raise wire.Disconnected(f"{asked['do']!r} is no request of this protocol")

    def _join(self, worker: str, connection: socket.socket) -> None:
        with self._changed:
            if (before := self._connections.get(worker)) is not None:
                before.close()
            self._connections[worker] = connection
            self._joined.add(worker)
            self._gate = self._gate.joined(worker)
            self._changed.notify_all()

    def _leave(self, worker: str, connection: socket.socket) -> None:
        """The others go on without it; what it had pushed still counts."""
        with self._changed:
            if self._connections.get(worker) is not connection:
                return
            del self._connections[worker]
            self._gate = self._gate.left(worker)
            self._apply_step_if_complete()
            self._changed.notify_all()

    def _ready(self, worker: str) -> bool:
        """Training begins when all workers have come; later it goes on with those that are left."""
        everyone = self.mode is Mode.ASYNCHRONOUS or len(self._joined) >= self.workers
        return everyone and self._gate.may_begin(worker)

    def _pull(self, worker: str, keys: list[str] | None) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
        with self._changed:
            self._changed.wait_for(lambda: self.finished or self._ready(worker))
            if self.finished:
                return {"finished": True}, {}
            chosen = self.parameters if keys is None else {name: self.parameters[name] for name in keys}
            copies = {name: tensor.clone() for name, tensor in chosen.items()}
            return {"version": self.version, "clock": self._gate.clocks[worker]}, copies

    def _rows(self, places: Mapping[str, torch.Tensor]) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
        """Those rows of embeddings that a batch needs."""
        with self._changed:
            return {}, {name: self.parameters[name][rows.long()] for name, rows in places.items()}

    def _push(
        self, worker: str, asked: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]
    ) -> dict[str, Any]:
        gradients = self._decode(tensors)
        with self._changed:
            clock = self._gate.clocks.get(worker, -1)
            repeated = self._last_push.get(worker) == asked["serial"]
            if self.finished or repeated or asked["clock"] != clock:  # of before a restart, say
                return {"finished": self.finished}
            self._last_push[worker] = asked["serial"]
            self.loss = float(asked.get("loss", self.loss))
            read = int(asked["version"])
            if self.mode is Mode.SYNCHRONOUS:
                self._pending[worker] = (clock, read, gradients)
            else:
                self._apply(
                    [(worker, clock, read)], {name: part / self.workers for name, part in gradients.items()}
                )
            self._gate = self._gate.finished(worker)
            self._apply_step_if_complete()
            self._changed.notify_all()
            return {"finished": self.finished}

    def _decode(self, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        parts: dict[str, dict[str, torch.Tensor]] = {}
        for name, tensor in tensors.items():
            key, _, part = name.rpartition("/")
            parts.setdefault(key, {})[part] = tensor
        return {key: self._gradient(key, found) for key, found in parts.items()}

    def _gradient(self, key: str, parts: Mapping[str, torch.Tensor]) -> torch.Tensor:
        like = self.parameters[key]
        if "rows" in parts:
            return torch.sparse_coo_tensor(
                parts["rows"].long()[None], parts["values"], like.shape, check_invariants=True
            )
        return codecs.decode(parts, like)

    def _apply_step_if_complete(self) -> None:
        if not self._pending or not set(self._gate.clocks) <= set(self._pending):
            return
        sums: dict[str, torch.Tensor] = {}
        for worker in sorted(self._pending):  # in one order, so that a run can be repeated
            for name, part in self._pending[worker][2].items():
                sums[name] = sums[name] + part if name in sums else part
        seen = [(worker, clock, read) for worker, (clock, read, _) in sorted(self._pending.items())]
        self._apply(seen, {name: total / len(seen) for name, total in sums.items()})
        self._pending.clear()

    def _apply(self, seen: list[tuple[str, int, int]], gradients: Mapping[str, torch.Tensor]) -> None:
        for name, parameter in self.parameters.items():
            parameter.grad = gradients.get(name)
        self._optimizer.step()
        self.version += 1
        self._taken += len(seen)
        for worker, clock, read in seen:
            update = Update(worker, clock, read, self.version)
            self.staleness[update.staleness] += 1
            self._observe(update)
