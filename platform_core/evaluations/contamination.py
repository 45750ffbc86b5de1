"""Whether a version was trained on what it is evaluated with: files of the same content in both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

SHOWN = 20  # paths


@dataclass(frozen=True, slots=True)
class Finding:
    """`shared` files of the evaluation data were trained on; None: that could not be found out, for this `problem`."""

    shared: int | None
    paths: tuple[str, ...] = ()  # the first of them
    files: int = 0  # that were looked for
    datasets: tuple[str, ...] = ()  # in these
    problem: str = ""


def compare(
    evaluation: Iterable[Mapping[str, Any]], training: Mapping[str, Iterable[Mapping[str, Any]]]
) -> Finding:
    """`evaluation` has the files of a manifest, `training` those of each dataset. Empty files say nothing."""
    trained = {file["sha256"] for files in training.values() for file in files if file["size"]}
    looked_for = [file for file in evaluation if file["size"]]
    shared = sorted(str(file["path"]) for file in looked_for if file["sha256"] in trained)
    return Finding(len(shared), tuple(shared[:SHOWN]), len(looked_for), tuple(sorted(training)))


def as_mapping(finding: Finding) -> dict[str, Any]:
    return {
        "shared": finding.shared, "paths": list(finding.paths), "files": finding.files,
        "datasets": list(finding.datasets), "problem": finding.problem,
    }  # fmt: skip
