"""What two runs were made of, side by side: commit, uncommitted changes, files of the code, packages and data set."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from platform_core.errors import TrainmasterError
from platform_core.experiments.diffs import Change, Line, changes, side_by_side
from platform_core.units import format_bytes
from webapp.artifacts import queries as artifacts
from webapp.artifacts.models import Manifest
from webapp.experiments.models import Run

MOST_FILES = 40  # with their lines
MOST_BYTES = 256 * 1024  # of a file
_FACTS = (
    "git_commit",
    "git_branch",
    "command",
    "dataset",
    "purpose",
    "reported_python",
    "hardware",
    "submitted_from",
)
_NAMES = {"git_commit": "commit", "git_branch": "branch", "dataset": "data set", "reported_python": "Python"}


@dataclass(frozen=True, slots=True)
class FileDiff:
    path: str
    kind: str  # added, removed or changed
    lines: list[Line] = field(default_factory=list)
    why_not: str = ""  # why the lines are not shown


@dataclass(frozen=True, slots=True)
class MadeOf:
    """Of two runs."""

    facts: list[Change]
    uncommitted: list[Line]
    has_uncommitted: bool
    files: list[FileDiff]
    more_files: int
    files_sentence: str
    packages: list[Change]
    same_packages: int


def made_of(left: Run, right: Run) -> MadeOf:
    before, after = (str(run.lineage.get("git_diff") or "") for run in (left, right))
    packages = [_texts(run.lineage.get("reported_packages")) for run in (left, right)]
    differing = changes(*packages)
    files, more, sentence = _files(left, right)
    return MadeOf(
        facts=changes(
            *({_NAMES.get(name, name): value for name, value in _facts(run).items()} for run in (left, right))
        ),
        uncommitted=side_by_side(before, after),
        has_uncommitted=bool(before or after),
        files=files,
        more_files=more,
        files_sentence=sentence,
        packages=differing,
        same_packages=len(packages[0].keys() & packages[1].keys())
        - sum(row.kind == "changed" for row in differing),
    )


def _texts(values: Any) -> dict[str, str]:
    return {str(name): str(value) for name, value in values.items()} if isinstance(values, Mapping) else {}


def _facts(run: Run) -> dict[str, str]:
    given = {name: run.lineage.get(name) for name in _FACTS}
    return {
        _NAMES.get(name, name): _text(value) for name, value in given.items() if value not in (None, "", [])
    }


def _text(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _files(left: Run, right: Run) -> tuple[list[FileDiff], int, str]:
    ids = [str(run.lineage.get("code") or "") for run in (left, right)]
    if not all(ids):
        return [], 0, "Files can be compared where both runs were submitted with their code."
    if ids[0] == ids[1]:
        return [], 0, "Both runs have the same code bundle."
    bundles = [artifacts.find(manifest_id) for manifest_id in ids]
    if bundles[0] is None or bundles[1] is None:
        return [], 0, "The code bundle of a run has been removed."
    entries = [{entry["path"]: entry for entry in bundle.document["files"]} for bundle in bundles if bundle]
    rows = changes(*({path: entry["sha256"] for path, entry in of_one.items()} for of_one in entries))
    shown = [_file(row, bundles, entries) for row in rows[:MOST_FILES]]
    same = len(entries[0].keys() & entries[1].keys()) - sum(row.kind == "changed" for row in rows)
    return shown, len(rows) - len(shown), f"{len(rows)} files differ, {same} are the same."


def _file(
    row: Change, bundles: Sequence[Manifest | None], entries: Sequence[Mapping[str, Mapping[str, Any]]]
) -> FileDiff:
    sizes = [of_one[row.name]["size"] for of_one in entries if row.name in of_one]
    if max(sizes) > MOST_BYTES:
        return FileDiff(
            row.name, row.kind, why_not=f"{format_bytes(max(sizes))}; lines are shown up to 256 KiB"
        )
    texts = [
        _content(bundle, of_one[row.name]) if bundle and row.name in of_one else ""
        for bundle, of_one in zip(bundles, entries, strict=True)
    ]
    if texts[0] is None or texts[1] is None:
        return FileDiff(row.name, row.kind, why_not="not a text file, or no longer in the store")
    return FileDiff(row.name, row.kind, side_by_side(texts[0], texts[1]))


def _content(bundle: Manifest, entry: Mapping[str, Any]) -> str | None:
    """None for what is not text or cannot be read."""
    if not entry["size"]:
        return ""
    try:
        return b"".join(
            artifacts.opened(bundle.source_url).stream_range(entry["path"], 0, entry["size"])
        ).decode()
    except (TrainmasterError, UnicodeDecodeError):
        return None
