"""Which runtime loads a folder."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from platform_core.serving.runtimes import COMPILES, RuntimeName
from trainmaster.serving.contract import Runtime
from trainmaster.serving.runtimes.custom import LoadError

RUNTIMES = "trainmaster.serving.runtimes"
LOADERS = {  # imported where they are used: a class of one's own needs no torch
    RuntimeName.PYTHON: ("custom", "load"),
    RuntimeName.TORCHSCRIPT: ("torch_modules", "scripted"),
    RuntimeName.EXPORTED: ("torch_modules", "exported"),
    RuntimeName.EAGER: ("torch_modules", "eager"),
    RuntimeName.ONNX: ("onnx_models", "load"),
}
BY_ENDING = {".pt2": RuntimeName.EXPORTED, ".onnx": RuntimeName.ONNX, ".pt": RuntimeName.TORCHSCRIPT,
             ".ts": RuntimeName.TORCHSCRIPT}  # fmt: skip


def load(folder: Path, runtime: RuntimeName, entry: str, compiled: bool = False) -> Runtime:
    """Raises LoadError with a sentence for a folder that it cannot load."""
    runtime = runtime_of(folder, runtime, entry)
    if compiled and runtime not in COMPILES:
        raise LoadError(
            f"The runtime {runtime} is not compiled; leave --compile out, or serve the module eager."
        )
    module, name = LOADERS[runtime]
    try:
        loader = getattr(import_module(f"{RUNTIMES}.{module}"), name)
    except ModuleNotFoundError as error:
        needs = f"The runtime {runtime} needs {error.name}, which this Python does not have"
        raise LoadError(f"{needs}; install it, or serve another form of the model.") from error
    loaded: Runtime = loader(folder, entry)
    if compiled:
        loaded.compile()  # type: ignore[attr-defined]
    return loaded


def runtime_of(folder: Path, runtime: RuntimeName, entry: str) -> RuntimeName:
    """The one that was named, else by the files. Raises LoadError."""
    if not folder.is_dir():
        raise LoadError(f"There is no folder {folder}.")
    return recognised(folder, entry) if runtime is RuntimeName.AUTO else runtime


def recognised(folder: Path, entry: str) -> RuntimeName:
    """By the entry, else by the files."""
    if ":" in entry or (folder / "model.py").exists():
        return RuntimeName.PYTHON
    endings = {Path(entry).suffix} if entry else {path.suffix for path in folder.iterdir()}
    for ending, runtime in BY_ENDING.items():
        if ending in endings:
            return runtime
    *most, last = BY_ENDING
    raise LoadError(
        f"{folder} has no model.py, {', '.join(most)} or {last}; name the runtime and the entry, such as python and"
        " serve:Model."
    )
