"""What an evaluation job says of the weights that it was given, and whether they are what was registered and sound."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from platform_core.units import plural

SHOWN = 3


def problem_of(report: Mapping[str, Any], files: Iterable[Mapping[str, Any]]) -> str:
    """Why the report proves nothing or too little; "" where the weights passed.

    `report`: `files`, path → SHA-256 that the job computed; `tensors`, name → `{"not_finite", "norm", "numbers"}`.
    `files` are those of the version's manifest.
    """
    digests, tensors = report.get("files"), report.get("tensors")
    if not isinstance(digests, Mapping) or not isinstance(tensors, Mapping):
        return "the report of the job has no files and tensors; call trainmaster.evaluation.validate()"
    different = [file["path"] for file in files if digests.get(file["path"]) != file["sha256"]]
    if different:
        return f"its files differ from what was registered: {_listed(different)}"
    if not tensors:
        return "no tensor was found in its files; it reads safetensors, and what torch.save wrote"
    if broken := sorted(name for name, tensor in tensors.items() if not _finite(tensor)):
        return f"values are not finite in {plural(len(broken), 'tensor')}: {_listed(broken)}"
    if not any(tensor["norm"] > 0 for tensor in tensors.values()):
        return f"all values of its {plural(len(tensors), 'tensor')} are zero"
    return ""


def _finite(tensor: Any) -> bool:
    if not isinstance(tensor, Mapping):
        return False
    norm = tensor.get("norm")
    return tensor.get("not_finite") == 0 and isinstance(norm, int | float) and math.isfinite(norm)


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(name[:120] for name in names[:SHOWN]) + more
