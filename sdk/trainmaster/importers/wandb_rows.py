"""Rows of a history of W&B as points and values; files of settings."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from platform_core.experiments.rich_values import MAX_CAPTION
from trainmaster.importers.runs import MOST_KEY, Point, Rich

_MEDIA = {"image-file": "image", "audio-file": "audio"}
_MOST_TEXT, _MOST_ROWS, _MOST_IMAGES = 100_000, 1_000, 100

Row = Mapping[str, Any]


def config_of(file: Path) -> dict[str, Any]:
    """Of a config.yaml as W&B writes it, in which each name has its value and a description, or of plain values."""
    document = yaml.safe_load(file.read_text()) if file.is_file() else None
    return {
        str(name): entry["value"] if _is_described(entry) else entry
        for name, entry in (document if isinstance(document, dict) else {}).items()
        if name not in ("_wandb", "wandb_version")
    }


def _is_described(entry: Any) -> bool:
    return isinstance(entry, dict) and "value" in entry and entry.keys() <= {"value", "desc"}


def contents_of(row: Row, step: int, at_ms: int, files: Path, prefix: str = "") -> Iterator[Point | Rich]:
    for name, value in row.items():
        if not prefix and name.startswith("_"):  # _step, _timestamp, _runtime, _wandb
            continue
        key = f"{prefix}{name}"[:MOST_KEY]
        number = number_of(value)
        if number is not None:
            yield Point(key, step, number, at_ms)
        elif isinstance(value, str) and value:
            yield Rich(key, step, at_ms, "text", document={"text": value[:_MOST_TEXT]})
        elif isinstance(value, Mapping) and "_type" in value:
            yield from _media(key, step, at_ms, value, files)
        elif isinstance(value, Mapping):
            yield from contents_of(value, step, at_ms, files, f"{key}/")


def _media(key: str, step: int, at_ms: int, value: Row, files: Path) -> Iterator[Rich]:
    path = _inside(files, value.get("path"))
    match value["_type"]:
        case "histogram" if len(value.get("bins", ())) == len(value.get("values", ())) + 1:
            counts = [round(count) for count in value["values"]]
            yield Rich(
                key,
                step,
                at_ms,
                "histogram",
                document={"counts": counts, "edges": value["bins"], "non_finite": 0},
            )
        case "table-file" if path:
            table = json.loads(path.read_text())
            rows = [[_cell(cell) for cell in row] for row in table.get("data", [])[:_MOST_ROWS]]
            columns = [str(column) for column in table.get("columns", [])]
            yield Rich(key, step, at_ms, "table", document={"columns": columns, "rows": rows})
        case "image-file" | "audio-file" as kind if path:
            yield _file(key, step, at_ms, _MEDIA[kind], path, caption=value.get("caption"))
        case "images/separated":
            captions = value.get("captions") or []  # one for each, or false
            for index, name in enumerate(value.get("filenames", ())[:_MOST_IMAGES]):
                caption = captions[index] if index < len(captions) else ""
                if path := _inside(files, name):
                    yield _file(key, step, at_ms, "image", path, index, caption)


def _inside(files: Path, name: object) -> Path | None:
    """The file of the run that a row names, if it is there."""
    path = files / str(name or "")
    return path if path.resolve().is_relative_to(files.resolve()) and path.is_file() else None


def _file(
    key: str, step: int, at_ms: int, kind: str, path: Path, index: int = 0, caption: object = ""
) -> Rich:
    data = path.read_bytes()
    return Rich(
        key, step, at_ms, kind, index, data=data, suffix=path.suffix, caption=str(caption or "")[:MAX_CAPTION]
    )


def _cell(value: Any) -> Any:
    return value if value is None or isinstance(value, str | int | float | bool) else json.dumps(value)


def step_of(row: Row, number: int) -> int:
    step = number_of(row.get("_step"))
    return number if step is None or not math.isfinite(step) else int(step)


def time_of(row: Row) -> int | None:
    seconds = number_of(row.get("_timestamp"))
    return None if seconds is None or not math.isfinite(seconds) else round(seconds * 1000)


def number_of(value: Any) -> float | None:
    """W&B writes what is not finite as a text; a cell of a CSV file is always one."""
    if isinstance(value, bool):
        return float(value)
    if not isinstance(value, int | float | str) or value == "":
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None
