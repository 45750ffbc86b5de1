"""ONNX models by ONNX Runtime, on the GPU where its package has CUDA."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from trainmaster.serving.contract import Tensor
from trainmaster.serving.runtimes.arrays import ArrayRuntime, model_file
from trainmaster.serving.runtimes.custom import LoadError

TYPES = {  # of ONNX Runtime → the datatype of the protocol, and NumPy's
    "tensor(float)": ("FP32", np.float32), "tensor(double)": ("FP64", np.float64),
    "tensor(float16)": ("FP16", np.float16), "tensor(int64)": ("INT64", np.int64),
    "tensor(int32)": ("INT32", np.int32), "tensor(int16)": ("INT16", np.int16), "tensor(int8)": ("INT8", np.int8),
    "tensor(uint8)": ("UINT8", np.uint8), "tensor(bool)": ("BOOL", np.bool_),
}  # fmt: skip
PROVIDERS = ("CUDAExecutionProvider", "CPUExecutionProvider")


class OnnxRuntime(ArrayRuntime):
    """A model with one input, whose first dimension is dynamic; the first output is the answer."""

    def __init__(self, session: Any) -> None:
        [one] = session.get_inputs()
        self._session, self._name, self._type = session, one.name, TYPES[one.type][1]
        is_index = np.issubdtype(self._type, np.integer)
        super().__init__(is_index, [_tensor(one)], [_tensor(session.get_outputs()[0])])

    def run(self, batch: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        output = self._session.run(
            [self.outputs[0].name], {self._name: batch.astype(self._type, copy=False)}
        )[0]
        return np.asarray(output)

    def close(self) -> None:
        self._session = None


def load(folder: Path, entry: str) -> OnnxRuntime:
    file = model_file(folder, entry, ".onnx")
    available = onnxruntime.get_available_providers()
    try:
        session = onnxruntime.InferenceSession(
            str(file), providers=[one for one in PROVIDERS if one in available]
        )
    except Exception as error:  # the classes of its errors are in its native part
        raise LoadError(f"ONNX Runtime cannot load {file.name}: {error}") from error
    inputs = session.get_inputs()
    if len(inputs) != 1:
        raise LoadError(f"{file.name} has {len(inputs)} inputs; a server asks a model with one tensor.")
    if inputs[0].type not in TYPES:
        raise LoadError(f"{file.name} takes {inputs[0].type}, which is no tensor of numbers.")
    return OnnxRuntime(session)


def _tensor(described: Any) -> Tensor:
    shape = tuple(size if isinstance(size, int) else -1 for size in described.shape)
    return Tensor(described.name, TYPES.get(described.type, (described.type, None))[0], shape)
