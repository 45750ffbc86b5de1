"""Runs of W&B: from the folders that its client keeps, online or offline, and from exported histories."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

from trainmaster.importers import wandb_exports
from trainmaster.importers.runs import (
    MOST_KEY,
    MOST_TAG,
    Content,
    Point,
    RunFile,
    SourceError,
    SourceRun,
    flat,
)
from trainmaster.importers.wandb_datastore import Datastore, NotADatastore, read
from trainmaster.importers.wandb_rows import Row, config_of, contents_of, step_of, time_of

_EXPORTS = (".csv", ".jsonl")


def runs_of(place: Path, experiment: str) -> list[SourceRun]:
    """`place`: a run folder, a folder of such (`wandb`, or its parent), or exported histories. Raises SourceError."""
    folders = [file.parent for file in _datastores(place)]
    if folders:
        runs = _joined(map(_of_folder, folders))
        return [replace(run, experiment=experiment or run.experiment) for run in runs]
    exports = [place] if place.suffix in _EXPORTS else sorted(_exports_in(place))
    if not exports:
        raise SourceError(
            f"{place} has neither a run of W&B (run-ID.wandb) nor an exported history (.csv or .jsonl)"
        )
    return wandb_exports.runs_of(exports, experiment)


def _joined(sessions: Iterable[SourceRun]) -> list[SourceRun]:
    """Folders with the same id in the same project are sessions of one run that was resumed."""
    by_run: dict[tuple[str, str], list[SourceRun]] = defaultdict(list)
    for session in sessions:
        by_run[session.experiment, session.identity].append(session)
    ids = Counter(identity for _, identity in by_run)
    runs = []
    for (project, identity), found in by_run.items():
        ordered = sorted(found, key=lambda session: session.started_ms or 0)
        alone = identity if ids[identity] == 1 else f"{identity}\0{project}"
        runs.append(replace(_resumed(ordered), identity=alone))
    return runs


def _resumed(sessions: Sequence[SourceRun]) -> SourceRun:
    """A later session replaces the steps that it repeats, as attempts of a job do."""
    first, last = sessions[0], sessions[-1]
    return replace(
        last,
        content=partial(_of_sessions, sessions),
        parameters={name: value for session in sessions for name, value in session.parameters.items()},
        tags={name: value for session in sessions for name, value in session.tags.items()},
        description=last.description or first.description,
        started_ms=first.started_ms,
        notes=tuple(note for session in sessions for note in session.notes),
    )


def _of_sessions(sessions: Sequence[SourceRun]) -> Iterator[Content]:
    for attempt, session in enumerate(sessions):
        for content in session.content():
            yield replace(content, attempt=attempt) if isinstance(content, Point) else content


def _datastores(place: Path) -> list[Path]:
    patterns = ("run-*.wandb", "*run-*/run-*.wandb", "wandb/*run-*/run-*.wandb")
    found = {file.parent.resolve(): file for pattern in patterns for file in sorted(place.glob(pattern))}
    return [found[folder] for folder in sorted(found)]  # `latest-run` is a link to one of them


def _exports_in(place: Path) -> Iterator[Path]:
    return (file for file in place.iterdir() if file.suffix in _EXPORTS) if place.is_dir() else iter(())


def _of_folder(folder: Path) -> SourceRun:
    [file, *_] = sorted(folder.glob("run-*.wandb"))
    try:
        store = read(file.read_bytes())
    except NotADatastore:
        raise SourceError(f"{file} is not a file that W&B wrote: its header is another") from None
    run = store.run
    run_id = run.id or file.stem.removeprefix("run-")
    config = {name: value for name, value in store.config.items() if name != "_wandb"} or config_of(
        folder / "files" / "config.yaml"
    )
    last_ms = max((time_of(row) or 0 for row in store.history), default=0) or None
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
        experiment=run.project,
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


def _content(folder: Path, store: Datastore) -> Iterator[Content]:
    files = folder / "files"
    known: set[str] = set()
    step, at_ms = 0, store.run.started_ms or 0
    for number, row in enumerate(store.history):
        step, at_ms = step_of(row, number), time_of(row) or at_ms
        for content in contents_of(row, step, at_ms, files):
            known.add(content.key)
            yield content
    # What a script put into the summary alone, such as a best value.
    yield from (
        content
        for content in contents_of(_summary(folder, store), step, at_ms, files)
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
