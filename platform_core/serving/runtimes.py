"""The forms of a model that the model server loads."""

from __future__ import annotations

from enum import StrEnum


class RuntimeName(StrEnum):
    AUTO = "auto"  # by the files of the model
    PYTHON = "python"  # a class of the team's own
    TORCHSCRIPT = "torchscript"
    EXPORTED = "exported"  # torch.export
    EAGER = "eager"  # a module of the team's own and its weights
    ONNX = "onnx"  # ONNX Runtime
    VLLM = "vllm"  # vLLM beside the model server, as a process of its own


COMPILES = (RuntimeName.EAGER, RuntimeName.EXPORTED)
