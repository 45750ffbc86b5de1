"""Whatever is asked and whatever the model answers, a strict reader of JSON can read it, with the right status."""

import asyncio
import json
import math
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

import httpx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from platform_core.serving.batching import BatchLimits
from trainmaster.serving.engine import Engine
from trainmaster.serving.server import ModelServer, Served
from trainmaster.serving.tensors import DTYPES


class Answers:
    """A runtime whose model is a function of the rows."""

    streams, inputs, outputs = True, (), ()

    def __init__(self, model: Callable[[Sequence[Any]], Any]) -> None:
        self._model = model

    def prepare(self, row: Any) -> Any:
        return row

    def shape_of(self, row: Any) -> Any:
        return None

    def tokens_of(self, row: Any) -> int:
        return 0

    def predict(self, rows: Sequence[Any]) -> Sequence[Any]:
        return self._model(rows)

    def stream(self, row: dict[str, Any]) -> Iterator[str]:
        yield from self._model([row])

    def close(self) -> None: ...


def refuse(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


def strict(answer: httpx.Response) -> Any:
    assert answer.headers["content-type"] == "application/json"
    return json.loads(answer.content.decode("utf-8", "strict"), parse_constant=refuse)


def ask(model: Callable[[Sequence[Any]], Any], path: str, **sent: Any) -> httpx.Response:
    async def asked() -> httpx.Response:
        engine = Engine(Answers(model), BatchLimits())
        transport = httpx.ASGITransport(app=ModelServer(engine, Served("m", "1")))
        async with httpx.AsyncClient(transport=transport, base_url="http://replica") as client:
            answer = await client.post(path, **sent)
        engine.close()
        return answer

    return asyncio.run(asked())


CYCLE: list[Any] = []
CYCLE.append(CYCLE)
LEARNT = torch.tensor([1.5, math.nan], requires_grad=True)


@pytest.mark.parametrize(
    ("output", "read"),
    [
        (math.nan, None),
        ([1.0, math.inf, -math.inf], [1.0, None, None]),
        (np.float32("nan"), None),
        (np.array([[1.0, np.nan]]), [[1.0, None]]),
        (np.array([True, False]), [True, False]),
        (np.array(["a", None], dtype=object), ["a", None]),
        (LEARNT, [1.5, None]),
        (torch.tensor([1.5], dtype=torch.bfloat16), [1.5]),
        (torch.tensor(7), 7),
        ({"label": "cat", 3: (torch.tensor(1), np.int64(2))}, {"label": "cat", "3": [1, 2]}),
        ("half a pair \ud83d", "half a pair \ufffd"),
        (None, None),
    ],
)
def test_what_json_can_hold_is_answered(output: Any, read: Any) -> None:
    answer = ask(lambda rows: [output], "/predict", json={"inputs": [1]})
    assert (answer.status_code, strict(answer)["outputs"]) == (200, [read])


@pytest.mark.parametrize(
    ("output", "named"),
    [
        ({1, 2}, "a set"),
        (b"raw", "a bytes"),
        (1 + 2j, "a complex"),
        (np.array([1j]), "a complex"),
        (Decimal("1.5"), "a Decimal"),
        (datetime(2026, 1, 1), "a datetime"),
        (np.datetime64("2026-01-01"), "a date"),
        (object(), "a object"),
        (CYCLE, "nested too deeply"),
        pytest.param(10**5_000, "cannot hold", id="digits"),
    ],
)
def test_a_type_that_json_does_not_have_is_named(output: Any, named: str) -> None:
    answer = ask(lambda rows: [output], "/predict", json={"inputs": [1]})
    assert answer.status_code == 500
    assert named in strict(answer)["error"]


class Odd(BaseException):
    """As PyTorch's CheckpointException, no Exception."""


@pytest.mark.parametrize("error", [KeyError("x"), SystemExit(3), Odd("odd"), MemoryError(), RecursionError()])
def test_a_model_that_raises_anything_fails_its_request_and_no_other(error: BaseException) -> None:
    def model(rows: Sequence[Any]) -> Any:
        if rows == ["bad"]:
            raise error
        return rows

    async def asked() -> tuple[httpx.Response, httpx.Response]:
        transport = httpx.ASGITransport(
            app=ModelServer(Engine(Answers(model), BatchLimits()), Served("m", "1"))
        )
        async with httpx.AsyncClient(transport=transport, base_url="http://replica") as client:
            bad = await client.post("/predict", json={"inputs": ["bad"]})
            return bad, await client.post("/predict", json={"inputs": ["good"]})

    bad, good = asyncio.run(asked())
    assert bad.status_code == 500
    assert type(error).__name__ in strict(bad)["error"]
    assert strict(good)["outputs"] == ["good"]


def infer(datatype: str, data: Any, shape: Any = None) -> httpx.Response:
    tensor = {"name": "x", "datatype": datatype, "shape": shape or [len(data)], "data": data}
    return ask(lambda rows: rows, "/v2/models/m/infer", content=json.dumps({"inputs": [tensor]}))


@pytest.mark.parametrize(
    ("datatype", "data", "shape"),
    [
        ("UINT8", [300], None),
        ("UINT8", [-1], None),
        ("INT8", [128], None),
        ("INT32", [1.5], None),
        ("INT64", [2**63], None),
        ("UINT64", [-1], None),
        ("INT32", [True], None),
        ("BOOL", ["false"], None),
        ("BOOL", [0], None),
        ("BOOL", [None], None),
        ("FP32", ["1.0"], None),
        ("FP32", [None], None),
        ("FP32", [False], None),
        ("FP32", [1e39], None),
        ("FP16", [70_000], None),
        pytest.param("FP64", [10**400], None, id="FP64-beyond"),
        ("FP32", [math.nan], None),
        ("FP32", {"a": 1}, [1]),
        ("FP32", [[1], [2, 3]], [3]),
        ("FP32", [[1, 2, 3], [4, 5, 6]], [3, 2]),
        ("FP32", [[[1]], [2]], [2, 1, 1]),
        ("FP32", [1, 2], [3]),
        ("FP32", [1], [10**9, 10**9, 10**9]),
        ("FP32", [1], [True]),
    ],
)
def test_a_value_that_its_datatype_cannot_hold_is_refused(datatype: str, data: Any, shape: Any) -> None:
    answer = infer(datatype, data, shape)
    assert answer.status_code == 400, answer.text
    assert strict(answer)["error"]


@given(
    st.sampled_from(sorted(DTYPES)),
    st.lists(st.booleans() | st.integers() | st.floats() | st.text(), min_size=1),
)
@settings(max_examples=150)
def test_an_accepted_value_comes_back_unchanged(datatype: str, data: list[Any]) -> None:
    answer = infer(datatype, data)
    read = strict(answer)
    if answer.status_code == 400:
        return
    back = read["outputs"][0]["data"]
    if datatype.startswith("FP"):
        assert back == np.array(data, dtype="f8").astype(DTYPES[datatype]).tolist()
    else:
        assert back == data
        assert all(isinstance(value, bool) is (datatype == "BOOL") for value in data)


@pytest.mark.parametrize(
    ("outputs", "datatype", "data"),
    [
        ([math.nan, 1.0], "FP64", [None, 1.0]),
        ([LEARNT, LEARNT], "FP32", [1.5, None, 1.5, None]),
        ([torch.tensor(1.5, dtype=torch.bfloat16)] * 2, "FP32", [1.5, 1.5]),
        (["cat", "dog"], "BYTES", ["cat", "dog"]),
    ],
)
def test_tensors_of_any_kind_are_answered_in_json(outputs: Any, datatype: str, data: Any) -> None:
    tensor = {"name": "x", "datatype": "INT32", "shape": [2], "data": [1, 2]}
    answer = ask(lambda rows: outputs, "/v2/models/m/infer", json={"inputs": [tensor]})
    output = strict(answer)["outputs"][0]
    assert (output["datatype"], output["data"]) == (datatype, data)


@pytest.mark.parametrize(
    "outputs", [[[1], [2, 3]], [1 + 2j, 1], [{"a": 1}, {"b": 2}], [None, 1], [b"a", b"b"]]
)
def test_outputs_that_make_no_tensor_are_a_fault_of_the_model(outputs: Any) -> None:
    tensor = {"name": "x", "datatype": "INT32", "shape": [2], "data": [1, 2]}
    answer = ask(lambda rows: outputs, "/v2/models/m/infer", json={"inputs": [tensor]})
    assert answer.status_code == 500
    assert "the model answered" in strict(answer)["error"]


def test_texts_are_answered_as_bytes_with_their_lengths() -> None:
    tensor = {"name": "x", "datatype": "BOOL", "shape": [2], "parameters": {"binary_data_size": 2}}
    head = json.dumps({"inputs": [tensor]}).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))}
    answer = ask(lambda rows: ["é", "b"], "/v2/models/m/infer", content=head + b"\1\0", headers=headers)
    length = int(answer.headers["Inference-Header-Content-Length"])
    assert answer.content[length:] == b"\2\0\0\0\xc3\xa9" + b"\1\0\0\0b"
    for raw in (b"\2\0", b"\1", b"\1\0\0"):
        assert (
            ask(lambda rows: rows, "/v2/models/m/infer", content=head + raw, headers=headers).status_code
            == 400
        )


def test_a_stream_that_gives_no_texts_ends_with_an_error_event() -> None:
    answer = ask(lambda rows: iter(["a", 7]), "/v1/completions", json={"prompt": "n", "stream": True})
    events = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: {")]
    assert "streamed a int" in json.loads(events[-1])["error"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
TENSOR = st.fixed_dictionaries(
    {},
    optional={
        "name": JSON, "datatype": st.sampled_from([*DTYPES, "BYTES"]) | JSON, "data": JSON, "parameters": JSON,
        "shape": st.lists(st.integers(-1, 4), max_size=3) | JSON,
    },
)  # fmt: skip
DOCUMENTS = st.one_of(
    JSON,
    st.fixed_dictionaries({"inputs": JSON}),
    st.fixed_dictionaries({"inputs": st.lists(TENSOR, max_size=2)}, optional={"id": JSON}),
    st.fixed_dictionaries(
        {}, optional=dict.fromkeys(("prompt", "max_tokens", "temperature", "stop", "seed"), JSON)
    ),
)
BODIES = st.one_of(
    DOCUMENTS.map(lambda document: json.dumps(document).encode()),
    st.binary(max_size=60),
    st.integers(1, 20_000).map(lambda depth: b"[" * depth),
)


@given(
    st.sampled_from(["/predict", "/v2/models/m/infer", "/v1/completions", "/v2/models/other/infer"]),
    BODIES,
    st.none() | st.sampled_from(["0", "5", "99999999", "-1", "x", "²"]),
)
@settings(max_examples=250)
def test_any_body_gets_an_answer_in_json(path: str, body: bytes, length: str | None) -> None:
    headers = {} if length is None else {"Inference-Header-Content-Length": length.encode("latin-1")}
    answer = ask(lambda rows: [str(row) for row in rows], path, content=body, headers=headers)
    assert answer.status_code in (200, 400, 404, 413)
    if answer.headers["content-type"] == "application/json":
        strict(answer)
