"""The Open Inference Protocol over gRPC, by a real client against the model server as a process."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from tests.sdk.serving import models
from trainmaster_wire.inference.v2 import open_inference_pb2 as wire
from trainmaster_wire.inference.v2.open_inference_pb2_grpc import GRPCInferenceServiceStub as Stub

ROWS = np.array([[1, 0, 0], [0, 1, 2]], "<f4")


@pytest.fixture
async def stub(tmp_path: Path, unused_tcp_port_factory: Any) -> AsyncIterator[Stub]:
    models.torchscript(tmp_path)
    http, port = unused_tcp_port_factory(), unused_tcp_port_factory()
    command = [sys.executable, "-m", "trainmaster.serving", str(tmp_path), "--name", "linear", "--version", "3",
               "--port", str(http), "--grpc-port", str(port)]  # fmt: skip
    process = await asyncio.create_subprocess_exec(*command, env=os.environ)
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = Stub(channel)  # type: ignore[no-untyped-call]
            await stub.ServerLive(wire.ServerLiveRequest(), wait_for_ready=True, timeout=120)
            yield stub
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        await process.wait()


def infer(**changes: Any) -> wire.ModelInferRequest:
    tensor = wire.ModelInferRequest.InferInputTensor(name="x", datatype="FP32", shape=[2, 3])
    return wire.ModelInferRequest(**{"model_name": "linear", "id": "7", "inputs": [tensor]} | changes)


async def refused(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code(), caught.value.details() or ""


async def test_a_client_asks_everything_that_the_protocol_has(stub: Stub) -> None:
    assert (await stub.ServerReady(wire.ServerReadyRequest())).ready
    assert (await stub.ServerMetadata(wire.ServerMetadataRequest())).name == "trainmaster"
    assert (await stub.ModelReady(wire.ModelReadyRequest(name="linear", version="3"))).ready
    metadata = await stub.ModelMetadata(wire.ModelMetadataRequest(name="linear"))
    assert (metadata.name, list(metadata.versions)) == ("linear", ["3"])

    raw = await stub.ModelInfer(infer(raw_input_contents=[ROWS.tobytes()]))
    assert (raw.id, raw.model_version, list(raw.outputs[0].shape)) == ("7", "3", [2, 2])
    np.testing.assert_allclose(np.frombuffer(raw.raw_output_contents[0], "<f4"), [1.0, 0.5, 8.0, -2.0])

    request = infer()
    request.inputs[0].contents.fp32_contents.extend(ROWS.ravel().tolist())
    typed = await stub.ModelInfer(request, metadata=(("x-priority", "0"),), timeout=60)
    assert not typed.raw_output_contents
    np.testing.assert_allclose(typed.outputs[0].contents.fp32_contents, [1.0, 0.5, 8.0, -2.0])

    unknown = await refused(stub.ModelInfer(infer(model_name="cube", raw_input_contents=[ROWS.tobytes()])))
    assert unknown[0] is grpc.StatusCode.NOT_FOUND
    code, sentence = await refused(stub.ModelInfer(infer(raw_input_contents=[b"short"])))
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert "shape [2, 3]" in sentence
    code, sentence = await refused(stub.ModelInfer(infer(inputs=[])))
    assert (code, "0 inputs" in sentence) == (grpc.StatusCode.INVALID_ARGUMENT, True)
