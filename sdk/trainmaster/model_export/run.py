"""One export after the other: written, run by a process of its own, compared with the original, and reported."""

from __future__ import annotations

import copy
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from platform_core.errors import TrainmasterError
from platform_core.registry import export_report
from platform_core.registry.differences import compare
from platform_core.registry.export_report import FILE, SAMPLES, Report
from platform_core.registry.exports import (
    TOLERANCES,
    Dtype,
    Export,
    Format,
    Target,
    Tolerance,
    percentile,
    refusals,
)
from platform_core.registry.signatures import Signature, Tensor
from trainmaster.model_export import formats as writers
from trainmaster.model_export import probe, safetensors_file

REPEATS = 100
MOST_SAMPLES, MOST_SAMPLE_BYTES = (
    32,
    16 << 20,
)  # kept beside the exports, to measure them where they are served
_BLOCK = 8 << 20
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def export_model(
    module: torch.nn.Module,
    samples: Any,
    folder: str | Path,
    *,
    target: Target | None = None,
    formats: Sequence[str] = (),
    dtype: str = "",
    tolerance: Tolerance | None = None,
    repeats: int = REPEATS,
) -> Report:
    """Writes the module into `folder` in each format, with `export.json` beside; the module itself stays as it is.

    `samples` are rows of one shape, an array or a tensor. Formats and dtype are those of the target where it names
    some, else every format that this Python can write, in float32. Each file is loaded by a process of its own, which
    has not seen the module, and its outputs are compared with the module's. What fails is in the report as `problem`.
    Raises TrainmasterError of request_invalid for samples, formats or a dtype that cannot be.
    """
    target = target or Target("none")
    dtype = _one_of(dtype or target.dtype or Dtype.FLOAT32, TOLERANCES, "dtype")
    chosen = [
        _one_of(one, tuple(Format), "format") for one in formats or sorted(target.formats) or _possible()
    ]
    rows = _rows(samples)
    original = copy.deepcopy(module).cpu().eval()
    allowed = tolerance or TOLERANCES[dtype]
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    exports = [
        check(
            original,
            rows,
            place,
            write(original, rows, place, format, dtype, target.max_opset),
            allowed,
            repeats,
        )
        for format in chosen
    ]
    digests = {one.file: _digest(place / one.file) for one in exports if (place / one.file).is_file()}
    signature = Signature((_tensor(rows),), (_tensor(_run(original, rows)),))
    report = Report(tuple(exports), digests, len(rows), probe.device(), allowed, signature)
    reasons = {one.format: list(refusals(target, one)) for one in exports}
    document = export_report.as_mapping(
        report, repeats=repeats, target={"name": target.name, **export_report.constraints(target)}, refused=reasons,
    )  # fmt: skip
    (place / FILE).write_text(json.dumps(document, indent=2) + "\n")
    few = rows[: _as_many_as_fit(rows)]
    np.savez(place / SAMPLES, rows=few, outputs=probe.outputs(lambda some: _run(original, some), few))
    return report


def write(
    original: torch.nn.Module, rows: Any, folder: Path, format: str, dtype: str, max_opset: int = 0
) -> Export:
    """The file in this format, not checked yet, or the problem that kept it from being written."""
    export = Export(format, writers.FILES[format], dtype)
    if format == Format.ONNX:
        export = replace(export, opset=min(max_opset or writers.OPSET, writers.OPSET))
    if problem := writers.missing(format):
        return replace(export, problem=problem)
    several = torch.from_numpy(np.concatenate([rows, rows])[: max(2, min(len(rows), 8))])
    module = writers.in_dtype(copy.deepcopy(original), dtype).eval()
    (folder / export.file).unlink(missing_ok=True)
    try:
        writers.write(format, module, several, folder / export.file, export.opset or 0)
    except Exception as error:  # torch raises whatever its compilers meet
        return replace(export, problem=f"it cannot be written: {_first_line(error)}")
    return export


def check(
    original: torch.nn.Module, rows: Any, folder: Path, export: Export, tolerance: Tolerance, repeats: int
) -> Export:
    """The export with what was measured of its file, or with the problem that kept it from running."""
    if export.problem:
        return export
    expected = probe.outputs(lambda some: _run(original, some), rows)
    try:
        if export.format == Format.SAFETENSORS:
            found, latencies, memory = _weights(original, rows, folder / export.file, export.dtype, repeats)
        else:
            found, latencies, memory = probe.run(rows, folder / export.file, export.format, repeats)
        difference = compare(expected.astype(np.float64), found.astype(np.float64), tolerance)
    except (ValueError, RuntimeError, KeyError, OSError) as error:
        return replace(export, problem=f"it cannot be run: {_first_line(error)}")
    return replace(
        export,
        difference=difference,
        memory_bytes=memory,
        p50_ms=percentile(latencies, 0.5),
        p95_ms=percentile(latencies, 0.95),
    )


def _weights(
    original: torch.nn.Module, rows: Any, path: Path, dtype: str, repeats: int
) -> tuple[Any, list[float], None]:
    """Weights need the class: they are read into another module of it, in this process, whose memory says nothing."""
    inner = copy.deepcopy(original)
    for tensor in inner.state_dict().values():
        tensor.zero_()  # so that nothing that the file lacks is right by chance
    loaded = writers.in_dtype(inner, dtype).eval()
    inner.load_state_dict(safetensors_file.read(path))
    found = probe.outputs(lambda some: _run(loaded, some), rows)
    return found, probe.latencies_ms(lambda some: _run(loaded, some), rows, repeats), None


def _as_many_as_fit(rows: Any) -> int:
    return max(1, min(MOST_SAMPLES, MOST_SAMPLE_BYTES // max(1, int(rows[0].nbytes))))


def _run(module: torch.nn.Module, rows: Any) -> Any:
    with torch.inference_mode():
        output = module(torch.from_numpy(rows))
    if not isinstance(output, torch.Tensor) or output.shape[:1] != (len(rows),):
        what = tuple(output.shape) if isinstance(output, torch.Tensor) else type(output).__name__
        why = f"for {len(rows)} rows it gave {what}; a server answers with one tensor, a row for each"
        raise TrainmasterError("request_invalid", what="the model", why=why)
    return (output.float() if output.is_floating_point() else output).numpy()


def _rows(samples: Any) -> Any:
    """As the model server gives them to a model: float32 or int64."""
    rows = samples.detach().cpu().numpy() if isinstance(samples, torch.Tensor) else np.asarray(samples)
    if rows.dtype.kind not in "biuf" or rows.ndim < 1 or not len(rows):
        why = f"they are an array {rows.shape} of {rows.dtype}; give rows of numbers, one at least"
        raise TrainmasterError("request_invalid", what="the samples", why=why)
    return np.ascontiguousarray(rows.astype(np.int64 if rows.dtype.kind in "iu" else np.float32))


def _possible() -> list[str]:
    return [str(format) for format in Format if not writers.missing(format)]


def _one_of(value: str, known: Any, what: str) -> str:
    if value not in tuple(known):
        raise TrainmasterError(
            "request_invalid", what=f"{what} {value!r}", why=f"it must be {', '.join(known)}"
        )
    return str(value)


def _tensor(rows: Any) -> Tensor:
    return Tensor(str(rows.dtype), (None, *rows.shape[1:]))


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _first_line(error: Exception) -> str:
    """Of the first cause, without the colours of a terminal: exporters wrap it in advice."""
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    lines = _COLOURS.sub("", str(cause)).strip().splitlines() or ["no reason"]
    return f"{type(cause).__name__}: {lines[0]}"[:500]
