"""The model server, asked over its own protocols."""

import asyncio
import itertools
import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from platform_core.serving.batching import BatchLimits
from platform_core.serving.runtimes import RuntimeName
from tests.sdk.serving import models
from trainmaster.serving.engine import Engine, ModelError, QueueFull
from trainmaster.serving.loading import load
from trainmaster.serving.server import ModelServer, Served

NUMBERS = itertools.count()


def client_of(server: ModelServer) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=server), base_url="http://replica")


def linear(tmp_path: Path, token: str = "") -> ModelServer:
    models.torchscript(tmp_path)
    engine = Engine(load(tmp_path, RuntimeName.AUTO, ""), BatchLimits())
    return ModelServer(engine, Served("linear", "3", token))


def writer(tmp_path: Path) -> ModelServer:
    folder = tmp_path / f"w{next(NUMBERS)}"
    folder.mkdir()
    return ModelServer(
        Engine(load(folder, RuntimeName.PYTHON, models.writer(folder)), BatchLimits()), Served("w", "1")
    )


class Gate:
    """A runtime that waits until it is let go, and keeps the batches that it was given."""

    streams = False

    def __init__(self) -> None:
        self.open, self.entered, self.batches = threading.Event(), threading.Event(), []  # type: ignore[var-annotated]

    def prepare(self, row: Any) -> Any:
        return row

    def shape_of(self, row: Any) -> Any:
        return None

    def tokens_of(self, row: Any) -> int:
        return 0

    def predict(self, rows: Sequence[Any]) -> Sequence[Any]:
        self.batches.append(list(rows))
        self.entered.set()
        self.open.wait(20)
        if "bad" in rows:
            raise RuntimeError("a bad row")
        return list(rows)

    def stream(self, row: dict[str, Any]) -> Any:
        raise ValueError

    def close(self) -> None: ...


async def test_plain_json_is_answered(tmp_path: Path) -> None:
    async with client_of(linear(tmp_path)) as client:
        answer = await client.post("/predict", json={"inputs": [[1, 0, 0], [0, 1, 2]]})
    assert answer.json() == {"outputs": [[1.0, 0.5], [8.0, -2.0]], "version": "3"}


async def test_kserve_is_answered_in_json_and_in_bytes(tmp_path: Path) -> None:
    tensor = {"name": "x", "datatype": "FP32", "shape": [2, 3], "data": [1, 0, 0, 0, 1, 2]}
    async with client_of(linear(tmp_path)) as client:
        plain = await client.post("/v2/models/linear/infer", json={"id": "7", "inputs": [tensor]})
        head = json.dumps(
            {"inputs": [tensor | {"data": None, "parameters": {"binary_data_size": 24}}]}
        ).encode()
        raw = np.array([[1, 0, 0], [0, 1, 2]], "<f4").tobytes()
        headers = {"Inference-Header-Content-Length": str(len(head))}
        binary = await client.post("/v2/models/linear/versions/3/infer", content=head + raw, headers=headers)
    assert plain.json()["outputs"][0]["data"] == [1.0, 0.5, 8.0, -2.0]
    assert plain.json()["id"] == "7"
    length = int(binary.headers["Inference-Header-Content-Length"])
    np.testing.assert_allclose(np.frombuffer(binary.content[length:], "<f4"), [1.0, 0.5, 8.0, -2.0])


@pytest.mark.parametrize(
    ("path", "body", "sentence"),
    [
        ("/predict", {"inputs": []}, "at least one row"),
        ("/predict", {"inputs": [["a", "b"]]}, "numbers"),
        ("/predict", {"inputs": [[1, 2, 3], [1]]}, "rows of one shape"),
        ("/v2/models/linear/infer", {"inputs": [{"datatype": "FP99", "shape": [1]}]}, "FP99"),
        (
            "/v2/models/linear/infer",
            {"inputs": [{"datatype": "FP32", "shape": [2, 3], "data": [1]}]},
            "shape",
        ),
        ("/v1/completions", {"prompt": "a"}, "no texts"),
    ],
)
async def test_a_bad_request_is_told_what_was_wrong(
    path: str, body: Any, sentence: str, tmp_path: Path
) -> None:
    async with client_of(linear(tmp_path)) as client:
        answer = await client.post(path, json=body)
    assert answer.status_code in (400, 404)
    assert sentence in answer.json()["error"]


async def test_only_the_router_is_answered_where_there_is_a_token(tmp_path: Path) -> None:
    async with client_of(linear(tmp_path, "s3cret")) as client:
        body = {"inputs": [[1, 0, 0]]}
        assert (await client.post("/predict", json=body)).status_code == 401
        router = {"X-Trainmaster-Replica": "s3cret"}
        assert (await client.post("/predict", json=body, headers=router)).status_code == 200
        assert (await client.get("/v2/health/ready")).status_code == 200


async def test_texts_are_completed_whole_and_in_parts(tmp_path: Path) -> None:
    async with client_of(writer(tmp_path)) as client:
        body = {"prompt": "n", "max_tokens": 3}
        whole = await client.post("/v1/completions", json=body)
        parts = await client.post("/v1/completions", json=body | {"stream": True})
    assert whole.json()["choices"][0]["text"] == "n0 n1 n2 "
    events = [line.removeprefix("data: ") for line in parts.text.splitlines() if line.startswith("data: {")]
    assert "".join(json.loads(event)["choices"][0]["text"] for event in events) == "n0 n1 n2 "
    assert parts.text.endswith("data: [DONE]\n\n")


async def test_a_stream_whose_caller_left_ends_in_the_model(tmp_path: Path) -> None:
    server = writer(tmp_path)
    engine = server._engine
    stream = engine.stream({"prompt": "n", "max_tokens": 4_000})
    assert await anext(stream) == "n0 "
    await stream.aclose()
    while not (await engine.predict(["closed?"]))[0]:
        pass
    assert not engine._streams


async def test_one_that_finds_the_model_free_goes_at_once_and_the_others_together() -> None:
    gate = Gate()
    engine = Engine(gate, BatchLimits(max_requests=8))
    answers = [asyncio.create_task(engine.predict([number])) for number in range(5)]
    await asyncio.to_thread(gate.entered.wait, 20)
    gate.open.set()
    assert await asyncio.gather(*answers) == [[0], [1], [2], [3], [4]]
    assert gate.batches == [[0], [1, 2, 3, 4]]


async def test_a_full_queue_refuses_and_says_when_to_come_back() -> None:
    gate = Gate()
    engine = Engine(gate, BatchLimits(max_waiting=2))
    answers = [asyncio.create_task(engine.predict([number])) for number in range(3)]
    await asyncio.to_thread(gate.entered.wait, 20)
    with pytest.raises(QueueFull) as full:
        await engine.predict([9])
    assert full.value.retry_after >= 1
    gate.open.set()
    await asyncio.gather(*answers)


async def test_one_that_left_while_it_waited_costs_the_model_nothing() -> None:
    gate = Gate()
    engine = Engine(gate, BatchLimits())
    first, second = (asyncio.create_task(engine.predict([number])) for number in range(2))
    await asyncio.to_thread(gate.entered.wait, 20)
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    gate.open.set()
    await first
    assert gate.batches == [[0]]


async def test_a_bad_request_fails_alone() -> None:
    gate = Gate()
    engine = Engine(gate, BatchLimits())
    answers = [asyncio.create_task(engine.predict([row])) for row in ("first", "good", "bad")]
    await asyncio.to_thread(gate.entered.wait, 20)
    gate.open.set()
    first, good, bad = await asyncio.gather(*answers, return_exceptions=True)
    assert (first, good) == (["first"], ["good"])
    assert isinstance(bad, ModelError)


async def test_a_request_past_its_deadline_is_not_run(tmp_path: Path) -> None:
    gate = Gate()
    server = ModelServer(Engine(gate, BatchLimits()), Served("gate", "1"))
    async with client_of(server) as client:
        first = asyncio.create_task(client.post("/predict", json={"inputs": [0]}))
        await asyncio.to_thread(gate.entered.wait, 20)
        late = asyncio.create_task(
            client.post("/predict", json={"inputs": [1]}, headers={"X-Deadline-Ms": "0"})
        )
        while not server._engine.waiting:
            await asyncio.sleep(0)
        gate.open.set()
        assert (await late).status_code == 504
        assert (await first).status_code == 200
    assert gate.batches == [[0]]
