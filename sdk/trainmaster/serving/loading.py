"""Which runtime loads a folder."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from platform_core.serving.runtimes import RuntimeName
from trainmaster.serving.contract import Runtime
from trainmaster.serving.runtimes.custom import CustomRuntime, LoadError

TORCH = "trainmaster.serving.runtimes.torch_modules"  # imported where it is used: a class of one's own needs no torch
LOADERS = {
    RuntimeName.TORCHSCRIPT: "scripted",
    RuntimeName.EXPORTED: "exported",
    RuntimeName.EAGER: "eager",
}


def load(folder: Path, runtime: RuntimeName, entry: str) -> Runtime:
    """Raises LoadError with a sentence for a folder that it cannot load."""
    if not folder.is_dir():
        raise LoadError(f"There is no folder {folder}.")
    if runtime is RuntimeName.AUTO:
        runtime, entry = _recognised(folder, entry)
    if runtime is RuntimeName.PYTHON:
        return CustomRuntime(folder, entry or "model:Model")
    try:
        torch_modules = import_module(TORCH)
    except ModuleNotFoundError as error:
        raise LoadError(
            f"The runtime {runtime} needs {error.name}, which this Python does not have."
        ) from error
    loader: Callable[[Path, str], Runtime] = getattr(torch_modules, LOADERS[runtime])
    return loader(folder, entry)


def _recognised(folder: Path, entry: str) -> tuple[RuntimeName, str]:
    if ":" in entry or (folder / "model.py").exists():
        return RuntimeName.PYTHON, entry
    endings = {path.suffix for path in folder.iterdir()}
    if ".pt2" in endings:
        return RuntimeName.EXPORTED, entry
    if endings & {".pt", ".ts"}:
        return RuntimeName.TORCHSCRIPT, entry
    raise LoadError(
        f"{folder} has no model.py, .pt2, .pt or .ts; name the runtime and the entry, such as python and serve:Model."
    )
