"""The job of the platform that measures the exports of a version on the slots that serve it.

`python -m trainmaster.model_export.measure` runs each file as the model server does, compares it with what the original
answered, and hands over `export-measured.json`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from platform_core.errors import TrainmasterError
from platform_core.registry import export_report
from platform_core.registry.differences import compare
from platform_core.registry.export_report import FILE, MEASURED, SAMPLES, Report
from platform_core.registry.exports import Export, Format, Tolerance, percentile
from trainmaster import api, evaluation
from trainmaster.model_export import probe

REPEATS = 200
BY_CLASS = "its weights need the class of the module, so that it was not run here"


def measure(folder: Path, repeats: int = REPEATS) -> Report:
    """What is measured here of the exports that lie in the folder, or in one below it."""
    place = _outermost(folder, FILE).parent
    report = export_report.read(json.loads((place / FILE).read_text()))
    if not (place / SAMPLES).is_file():
        why = "it has none; export the model again with this version of Trainmaster"
        raise TrainmasterError("request_invalid", what=f"{SAMPLES} beside {FILE}", why=why)
    kept = np.load(place / SAMPLES)
    exports = tuple(
        _measured(export, place, kept["rows"], kept["outputs"], report.tolerance, repeats)
        for export in report.exports
    )
    return replace(report, exports=exports, samples=len(kept["rows"]), device=probe.device())


def _measured(
    export: Export, place: Path, rows: np.ndarray, expected: np.ndarray, tolerance: Tolerance, repeats: int
) -> Export:
    bare = replace(export, difference=None, p50_ms=None, p95_ms=None, memory_bytes=None)
    if export.problem:
        return bare
    if export.format == Format.SAFETENSORS:
        return replace(bare, problem=BY_CLASS)
    try:
        found, latencies, memory = probe.run(rows, place / export.file, export.format, repeats)
        difference = compare(expected.astype(np.float64), found.astype(np.float64), tolerance)
    except (ValueError, RuntimeError, KeyError, OSError) as error:
        return replace(bare, problem=f"it cannot be run here: {str(error)[:500]}")
    return replace(
        bare,
        difference=difference,
        memory_bytes=memory,
        p50_ms=percentile(latencies, 0.5),
        p95_ms=percentile(latencies, 0.95),
    )


def _outermost(folder: Path, name: str) -> Path:
    found = [path for path in folder.rglob(name) if path.is_file()]
    if not found:
        raise TrainmasterError("not_found", what=f"{name} in {folder}")
    return min(found, key=lambda path: (len(path.parts), path))


def main() -> None:
    report = measure(evaluation.model_dir())
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / MEASURED
        file.write_text(json.dumps(export_report.as_mapping(report)))
        api.log_artifact(file)
    for export in report.exports:
        found = export.problem or f"p95 {export.p95_ms:.3f} ms, {export.memory_bytes} bytes"
        sys.stdout.write(f"{export.format}: {found}\n")


if __name__ == "__main__":
    main()
