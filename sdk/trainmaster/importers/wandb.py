"""Runs of W&B: from the folders that its client keeps, online or offline, and from exported histories."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from platform_core.experiments.rich_values import MAX_CAPTION
from trainmaster.importers.runs import (
    MOST_KEY,
    MOST_TAG,
    Content,
    Point,
    Rich,
    RunFile,
    SourceError,
    SourceRun,
    flat,
)
from trainmaster.importers.wandb_datastore import Datastore, NotADatastore, read

_EXPORTS = (".csv", ".jsonl")
_MEDIA = {"image-file": "image", "audio-file": "audio"}
_MOST_TEXT, _MOST_ROWS, _MOST_IMAGES = 100_000, 1_000, 100

Row = Mapping[str, Any]


def runs_of(place: Path, experiment: str) -> list[SourceRun]:
    """`place`: a run folder, a folder of such (`wandb`, or its parent), or exported histories. Raises SourceError."""
    folders = [file.parent for file in _datastores(place)]
    if folders:
        return [_of_folder(folder, experiment) for folder in folders]
    exports = [place] if place.suffix in _EXPORTS else sorted(_exports_in(place))
    if not exports:
        raise SourceError(
            f"{place} has neither a run of W&B (run-ID.wandb) nor an exported history (.csv or .jsonl)"
        )
    return [_of_export(file, experiment) for file in exports]


def _datastores(place: Path) -> list[Path]:
    patterns = ("run-*.wandb", "*run-*/run-*.wandb", "wandb/*run-*/run-*.wandb")
    found = {file.parent.resolve(): file for pattern in patterns for file in sorted(place.glob(pattern))}
    return [found[folder] for folder in sorted(found)]  # `latest-run` is a link to one of them


def _exports_in(place: Path) -> Iterator[Path]:
    return (file for file in place.iterdir() if file.suffix in _EXPORTS) if place.is_dir() else iter(())


def _of_folder(folder: Path, experiment: str) -> SourceRun:
    [file, *_] = sorted(folder.glob("run-*.wandb"))
    try:
        store = read(file.read_bytes())
    except NotADatastore:
        raise SourceError(f"{file} is not a file that W&B wrote: its header is another") from None
    run = store.run
    run_id = run.id or file.stem.removeprefix("run-")
    config = {name: value for name, value in store.config.items() if name != "_wandb"} or _config(
        folder / "files" / "config.yaml"
    )
    last_ms = max((_time(row) or 0 for row in store.history), default=0) or None
    notes = [f"{file.name} is damaged; what follows the damage was left out."] if store.is_damaged else []
    if store.exit_code is None:
        notes.append(f"{file.name} does not say how the run ended; it is kept as failed.")
    if links := [path for path in sorted((folder / "files").rglob("*")) if path.is_symlink()]:
        names = ", ".join(path.relative_to(folder / "files").as_posix() for path in links)
        notes.append(
            f"Files of `wandb.save` are links to files outside of the folder and were left out: {names}"
        )
    tags = {tag[:MOST_KEY]: "" for tag in run.tags}
    return SourceRun(
        source="wandb",
        identity=run_id,
        experiment=experiment or run.project,
        name=run.name or run_id,
        content=partial(_content, folder, store),
        parameters=flat(config),
        tags=tags | ({"job_type": run.job_type[:MOST_TAG]} if run.job_type else {}),
        lineage={"hardware": run.host} if run.host else {},
        description=run.notes,
        group=run.group,
        state="succeeded" if store.exit_code == 0 else "failed",
        started_ms=run.started_ms,
        ended_ms=last_ms,
        notes=tuple(notes),
    )


def _config(file: Path) -> dict[str, Any]:
    """Of a config.yaml as W&B writes it, in which each name has its value and a description, or of plain values."""
    document = yaml.safe_load(file.read_text()) if file.is_file() else None
    return {
        str(name): entry["value"] if _is_described(entry) else entry
        for name, entry in (document if isinstance(document, dict) else {}).items()
        if name not in ("_wandb", "wandb_version")
    }


def _is_described(entry: Any) -> bool:
    return isinstance(entry, dict) and "value" in entry and entry.keys() <= {"value", "desc"}


def _content(folder: Path, store: Datastore) -> Iterator[Content]:
    files = folder / "files"
    known: set[str] = set()
    step, at_ms = 0, store.run.started_ms or 0
    for number, row in enumerate(store.history):
        step, at_ms = _step(row, number), _time(row) or at_ms
        for content in _of_row(row, step, at_ms, files):
            known.add(content.key)
            yield content
    # What a script put into the summary alone, such as a best value.
    yield from (
        content
        for content in _of_row(_summary(folder, store), step, at_ms, files)
        if content.key not in known
    )
    for path in sorted(path for path in files.rglob("*") if path.is_file() and not path.is_symlink()):
        yield RunFile(path.relative_to(files).as_posix(), partial(_opened, path))


def _opened(path: Path) -> AbstractContextManager[Path]:
    return nullcontext(path)


def _summary(folder: Path, store: Datastore) -> Row:
    file = folder / "files" / "wandb-summary.json"
    if store.summary or not file.is_file():
        return store.summary
    document = json.loads(file.read_text())
    return document if isinstance(document, dict) else {}


def _of_row(row: Row, step: int, at_ms: int, files: Path, prefix: str = "") -> Iterator[Point | Rich]:
    for name, value in row.items():
        if not prefix and name.startswith("_"):  # _step, _timestamp, _runtime, _wandb
            continue
        key = f"{prefix}{name}"[:MOST_KEY]
        number = _number(value)
        if number is not None:
            yield Point(key, step, number, at_ms)
        elif isinstance(value, str) and value:
            yield Rich(key, step, at_ms, "text", document={"text": value[:_MOST_TEXT]})
        elif isinstance(value, Mapping) and "_type" in value:
            yield from _media(key, step, at_ms, value, files)
        elif isinstance(value, Mapping):
            yield from _of_row(value, step, at_ms, files, f"{key}/")


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


def _of_export(file: Path, experiment: str) -> SourceRun:
    """What `run.history()` of W&B's API gave, as CSV or as JSON lines; beside it NAME.config.json or .yaml."""
    rows = list(_rows(file))
    times = [time for row in rows if (time := _time(row)) is not None]
    config: dict[str, Any] = {}
    for suffix in (".config.json", ".config.yaml"):
        config |= _config(file.with_name(file.stem + suffix))
    return SourceRun(
        source="wandb",
        identity=file.stem,
        experiment=experiment,
        name=file.stem,
        content=partial(_of_rows, rows, file.parent),
        parameters=flat(config),
        started_ms=min(times, default=None),
        ended_ms=max(times, default=None),
    )


def _of_rows(rows: Iterable[Row], folder: Path) -> Iterator[Content]:
    for number, row in enumerate(rows):
        yield from _of_row(row, _step(row, number), _time(row) or 0, folder)


def _rows(file: Path) -> Iterator[Row]:
    with file.open(newline="") as stream:
        if file.suffix == ".csv":
            yield from csv.DictReader(stream)
            return
        for number, line in enumerate(stream, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError:
                row = None
            if not isinstance(row, dict):
                raise SourceError(f"line {number} of {file} is not a JSON object")
            yield row


def _step(row: Row, number: int) -> int:
    step = _number(row.get("_step"))
    return number if step is None or not math.isfinite(step) else int(step)


def _time(row: Row) -> int | None:
    seconds = _number(row.get("_timestamp"))
    return None if seconds is None or not math.isfinite(seconds) else round(seconds * 1000)


def _number(value: Any) -> float | None:
    """W&B writes what is not finite as a text; a cell of a CSV file is always one."""
    if isinstance(value, bool):
        return float(value)
    if not isinstance(value, int | float | str) or value == "":
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None
