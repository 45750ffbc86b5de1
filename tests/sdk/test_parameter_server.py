"""Workers and servers over real connections: modes, codecs, and what goes on when one of them is gone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from socketserver import ThreadingTCPServer
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from platform_core.aggregation.histories import Update, violation
from trainmaster.parameter_server import CODECS, Client, Mode, Server
from trainmaster.parameter_server.codecs import TopK, decode

RATE = 0.1


def model() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))


def batch(worker: int, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(8, 4, generator=torch.Generator().manual_seed(100 * step + worker))
    return x, x[:, :2].sin()


def gradients(net: nn.Module, worker: int, step: int) -> float:
    x, y = batch(worker, step)
    net.zero_grad()
    loss = (net(x) - y).square().mean()
    loss.backward()
    return loss.item()


def sgd(parameters: list[torch.Tensor]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=RATE, momentum=0.9)


def server(**options: Any) -> Server:
    return Server(dict(model().named_parameters()), sgd, **options)


@contextmanager
def listening(*servers: Server) -> Iterator[list[tuple[str, int]]]:
    listeners = [each.listen("127.0.0.1") for each in servers]
    try:
        yield [("127.0.0.1", address_of(listener)) for listener in listeners]
    finally:
        for each, listener in zip(servers, listeners, strict=True):
            each.stop()
            listener.shutdown()
            listener.server_close()


def address_of(listener: ThreadingTCPServer) -> int:
    return int(listener.server_address[1])


def train(client: Client, worker: int, before: Callable[[int], None] = lambda step: None) -> None:
    net = model()
    while (step := client.pull(net)) is not None:
        before(step)
        if not client.push(net, gradients(net, worker, step)):
            break
    client.close()


def together(*work: Callable[[], None]) -> None:
    threads = [threading.Thread(target=each, daemon=True) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)


def all_reduced(workers: int, steps: int) -> dict[str, torch.Tensor]:
    """What the mean of all gradients makes of the model."""
    net = model()
    optimizer = sgd(list(net.parameters()))
    for step in range(steps):
        sums = [torch.zeros_like(parameter) for parameter in net.parameters()]
        for worker in range(workers):
            gradients(net, worker, step)
            for total, parameter in zip(sums, net.parameters(), strict=True):
                total += parameter.grad if parameter.grad is not None else 0
        for total, parameter in zip(sums, net.parameters(), strict=True):
            parameter.grad = total / workers
        optimizer.step()
    return dict(net.named_parameters())


@pytest.mark.parametrize(("workers", "count"), [(1, 1), (3, 2)])
def test_synchronous_training_equals_all_reduce(workers: int, count: int) -> None:
    servers = [
        server(workers=workers, steps=5 * workers, number=number, servers=count) for number in range(count)
    ]
    with listening(*servers) as places:
        together(*[
            lambda worker=worker: train(Client(places, worker), worker)  # type: ignore[misc]
            for worker in range(workers)
        ])  # fmt: skip
    found = {name: tensor for each in servers for name, tensor in each.parameters.items()}
    expected = all_reduced(workers, 5)
    assert set(found) == set(expected)
    for name, tensor in found.items():
        torch.testing.assert_close(tensor, expected[name].detach())


@pytest.mark.parametrize("bound", [0, 2])
def test_no_worker_gets_further_ahead_than_the_bound_while_another_stands_still(bound: int) -> None:
    history: list[Update] = []
    blocked = threading.Event()

    def observe(update: Update) -> None:
        history.append(update)
        if len(history) == bound + 1:  # the fast worker has all that it may do
            blocked.set()

    slow = server(workers=2, steps=12, mode=Mode.BOUNDED, bound=bound, observe=observe)
    with listening(slow) as places:
        together(
            lambda: train(Client(places, "fast"), 0),
            lambda: train(Client(places, "slow"), 1, lambda step: None if step else blocked.wait(30)),  # type: ignore[func-returns-value]
        )
    assert [update.worker for update in history[: bound + 1]] == ["fast"] * (bound + 1)
    assert violation(history, 2, bound) == ""


def test_asynchronous_workers_share_the_steps_as_they_are_fast() -> None:
    history: list[Update] = []
    done = threading.Event()

    def observe(update: Update) -> None:
        history.append(update)
        if len(history) == 8:
            done.set()

    free = server(workers=2, steps=9, mode=Mode.ASYNCHRONOUS, observe=observe)
    with listening(free) as places:
        together(
            lambda: train(Client(places, "fast"), 0),
            lambda: train(Client(places, "slow"), 1, lambda step: done.wait(30)),  # type: ignore[func-returns-value, arg-type, return-value]
        )
    assert free.finished
    assert [update.worker for update in history].count("fast") >= 8


def test_workers_go_on_with_a_server_that_comes_back_from_its_checkpoint() -> None:
    first, saved = server(workers=1, steps=6), {}
    listener = first.listen("127.0.0.1")
    port = address_of(listener)
    client, net = Client([("127.0.0.1", port)], 0, patience=30), model()
    for _ in range(3):
        step = client.pull(net)
        assert step is not None
        client.push(net, gradients(net, 0, step))
    saved = first.state_dict()
    listener.shutdown()
    listener.server_close()
    client.close()
    second = server(workers=1, steps=6)
    second.load_state_dict(saved)
    again = second.listen("127.0.0.1", port)
    try:
        taken = 3
        while client.pull(net) is not None:
            client.push(net, gradients(net, 0, taken))
            taken += 1
    finally:
        again.shutdown()
        again.server_close()
    assert (second.version, taken) == (6, 6)
    for name, tensor in all_reduced(1, 6).items():
        torch.testing.assert_close(second.parameters[name], tensor.detach())


def test_a_worker_that_dies_does_not_hold_up_the_others() -> None:
    left = server(workers=2, steps=10)
    with listening(left) as places:
        dying, net = Client(places, "dying"), model()

        def die() -> None:
            dying.pull(net)
            dying.close()

        together(die, lambda: train(Client(places, "staying"), 0))
    assert left.finished


def test_a_push_that_is_repeated_counts_once_and_a_stranger_is_turned_away() -> None:
    asked = server(workers=1, mode=Mode.ASYNCHRONOUS, attempt="att-1")
    push = {"do": "push", "clock": 0, "version": 0, "serial": "a"}
    with listening(asked) as places:
        client, net = Client(places, "w", attempt="att-1"), model()
        client.pull(net)
        for _ in range(2):
            asked._answer("w", push, {})
        assert asked.version == 1
        with pytest.raises(ConnectionError):
            Client(places, "x", attempt="att-0", patience=0).pull(net)
        client.close()


def test_only_the_rows_of_an_embedding_that_a_batch_uses_travel() -> None:
    torch.manual_seed(1)
    table = nn.ModuleDict({"words": nn.Embedding(10_000, 8)})
    before = table["words"].weight.detach().clone()  # type: ignore[union-attr, operator]
    kept = Server(
        dict(table.named_parameters()), lambda parameters: torch.optim.SGD(parameters, lr=1.0),
        workers=1, mode=Mode.ASYNCHRONOUS,
    )  # fmt: skip
    with listening(kept) as places:
        client = Client(places, 0, sparse=["words.weight"])
        client.pull(table)
        used = torch.tensor([3, 7, 7])
        client.rows(table, {"words.weight": used})
        table["words"](used).sum().backward()
        client.push(table)
        assert client.bytes_sent + client.bytes_received < 3_000
        client.close()
    changed = (kept.parameters["words.weight"] != before).any(dim=1).nonzero().flatten()
    assert changed.tolist() == [3, 7]
    torch.testing.assert_close(kept.parameters["words.weight"][7], before[7] - 2)


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(["plain", "int8", "top-k"]), st.integers(1, 6), st.integers(0, 10**6))
def test_what_a_codec_leaves_out_arrives_later(name: str, steps: int, seed: int) -> None:
    """Sum of what was sent and of what is kept is the sum of the gradients."""
    random, codec = torch.Generator().manual_seed(seed), CODECS[name]()
    if isinstance(codec, TopK):
        codec.share = 0.2
    sent = total = torch.zeros(5, 7)
    for _ in range(steps):
        gradient = torch.randn(5, 7, generator=random)
        total = total + gradient
        sent = sent + decode(codec.encode("w", gradient), gradient)
    kept = getattr(codec, "errors", {}).get("w", torch.zeros(()))
    torch.testing.assert_close(sent + kept, total, rtol=1e-4, atol=1e-4)


def test_codecs_send_as_many_bytes_as_they_say() -> None:
    gradient = torch.randn(100, 100)
    for make in CODECS.values():
        codec = make()
        parts = codec.encode("w", gradient)
        size = sum(tensor.nbytes for tensor in parts.values())
        assert size == pytest.approx(codec.ratio * gradient.nbytes, rel=0.01)
        assert decode(parts, gradient).shape == gradient.shape
