"""Tensors of the Open Inference Protocol over gRPC as the bytes that its HTTP form has, and back. Without NumPy."""

from __future__ import annotations

import json
from array import array
from typing import Any

from trainmaster_wire.inference.v2 import open_inference_pb2 as wire

CONTENTS = {  # datatype → the field of InferTensorContents, and the code of its bytes
    "BOOL": ("bool_contents", "B"), "UINT8": ("uint_contents", "B"), "UINT16": ("uint_contents", "H"),
    "UINT32": ("uint_contents", "I"), "UINT64": ("uint64_contents", "Q"), "INT8": ("int_contents", "b"),
    "INT16": ("int_contents", "h"), "INT32": ("int_contents", "i"), "INT64": ("int64_contents", "q"),
    "FP32": ("fp32_contents", "f"), "FP64": ("fp64_contents", "d"),
}  # fmt: skip


def body_of(request: wire.ModelInferRequest) -> tuple[bytes, int]:
    """The body of the HTTP form, its tensor as bytes, and how many of them are JSON. Raises ValueError."""
    if len(request.inputs) != 1:
        raise ValueError(f"the request has {len(request.inputs)} inputs; this server takes one tensor")
    tensor = request.inputs[0]
    raw = _raw(request, tensor)
    head: dict[str, Any] = {
        "inputs": [{
            "name": tensor.name, "datatype": tensor.datatype, "shape": list(tensor.shape),
            "parameters": {"binary_data_size": len(raw)},
        }],
    }  # fmt: skip
    if request.id:
        head["id"] = request.id
    encoded = json.dumps(head).encode()
    return encoded + raw, len(encoded)


def _raw(request: wire.ModelInferRequest, tensor: wire.ModelInferRequest.InferInputTensor) -> bytes:
    if request.raw_input_contents:
        return request.raw_input_contents[0]
    if tensor.datatype not in CONTENTS:
        raise ValueError(f"the datatype {tensor.datatype} is sent in raw_input_contents alone")
    field, code = CONTENTS[tensor.datatype]
    try:
        return array(code, getattr(tensor.contents, field)).tobytes()
    except OverflowError as error:
        raise ValueError(f"{field} has a value that is no {tensor.datatype}: {error}") from error


def response_of(body: bytes, json_length: int, raw: bool) -> wire.ModelInferResponse:
    """Of the HTTP form's answer: its bytes as they are where the caller sent bytes, else as numbers."""
    head = json.loads(body[:json_length])
    response = wire.ModelInferResponse(
        model_name=head["model_name"], model_version=head["model_version"], id=head.get("id", "")
    )
    place = json_length
    for described in head["outputs"]:
        size, datatype = described["parameters"]["binary_data_size"], described["datatype"]
        part, place = body[place : place + size], place + size
        tensor = response.outputs.add(name=described["name"], datatype=datatype, shape=described["shape"])
        if raw or datatype not in CONTENTS:
            response.raw_output_contents.append(part)
        else:
            field, code = CONTENTS[datatype]
            numbers = array(code)
            numbers.frombytes(part)
            getattr(tensor.contents, field).extend(numbers)
    return response
