"""A file of a run as its page shows it: bounded, and without running anything of it."""

import csv
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from django.utils.safestring import SafeString

from webapp.pages import markdown

Kind = Literal["text", "code", "markdown", "json", "table", "image", "notebook", "none", "trace", "flame"]

READ_BYTES = 512 * 1024  # of a text; the rest is in the download
IMAGE_BYTES = 16 * 2**20
LINES = 2_000
ROWS, COLUMNS, CELL = 200, 30, 200
NOTEBOOK_CELLS, OUTPUT = 200, 8_000

# Only pixels: an SVG is a page that may run scripts.
IMAGES = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
}
TABLES = {"csv": ",", "tsv": "\t"}
# What the SDK records of a running script. Drawn by a module of ours, which reads the file as data.
RECORDINGS: Mapping[str, Kind] = {
    r"(profile|memory)-\d+-rank-\d+\.json\.gz": "trace",
    r"flame-\d+-rank-\d+\.folded\.txt": "flame",
}
RECORDING_BYTES = 64 * 2**20
_LANGUAGES = (
    "py pyi sh bash c h cc cpp cu rs go js ts java r jl sql yaml yml toml ini cfg conf xml html css svg diff"
)
CODE = frozenset(_LANGUAGES.split())


@dataclass(frozen=True, slots=True)
class Table:
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    is_cut: bool


@dataclass(frozen=True, slots=True)
class NotebookCell:
    kind: str  # code, prose or text
    text: str = ""
    html: SafeString | str = ""
    outputs: Sequence[str] = ()
    images: Sequence[str] = ()  # data: addresses of PNG and JPEG


@dataclass(frozen=True, slots=True)
class Preview:
    kind: Kind
    text: str = ""
    html: SafeString | str = ""
    table: Table | None = None
    cells: Sequence[NotebookCell] = ()
    is_cut: bool = False
    why: str = ""  # there is no preview


def extension(name: str) -> str:
    return name.rpartition("/")[2].rpartition(".")[2].lower() if "." in name else ""


def recording_of(name: str) -> Kind | None:
    """Whether the name is one that the SDK gives its recordings, and how they are drawn."""
    last = name.rpartition("/")[2]
    return next((kind for pattern, kind in RECORDINGS.items() if re.fullmatch(pattern, last)), None)


def preview(name: str, size: int, read: Callable[[int], bytes]) -> Preview:
    """`read(n)` gives the first n bytes. What is no such file after all is shown as text, or not at all."""
    ending = extension(name)
    if ending in IMAGES:
        if size > IMAGE_BYTES:
            return Preview("none", why=f"The image is larger than {IMAGE_BYTES // 2**20} MiB.")
        return Preview("image")
    if (recording := recording_of(name)) is not None:
        if size > RECORDING_BYTES:
            return Preview("none", why=f"The recording is larger than {RECORDING_BYTES // 2**20} MiB.")
        return Preview(recording)
    data = read(min(size, READ_BYTES))
    if b"\0" in data[:8192]:
        return Preview("none", why="The file is not text.")
    is_cut = size > len(data)
    text = data.decode("utf-8", errors="replace")
    try:
        if ending in TABLES:
            return Preview("table", table=_table(text, TABLES[ending], is_cut), is_cut=is_cut)
        if ending == "ipynb" and not is_cut:
            return Preview("notebook", cells=_notebook(json.loads(text)))
        if ending == "json" and not is_cut:
            return _text("json", json.dumps(json.loads(text), indent=2, ensure_ascii=False), is_cut)
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError, csv.Error):
        return _text("text", text, is_cut)
    if ending == "md":
        return Preview("markdown", html=markdown.render(text), is_cut=is_cut)
    return _text("code" if ending in CODE else "text", text, is_cut)


def _text(kind: Kind, text: str, is_cut: bool) -> Preview:
    lines = text.splitlines()
    return Preview(kind, text="\n".join(lines[:LINES]), is_cut=is_cut or len(lines) > LINES)


def _table(text: str, delimiter: str, is_cut: bool) -> Table:
    reader = csv.reader(io.StringIO(text), delimiter=delimiter)
    rows: list[list[str]] = []
    for row in reader:
        rows.append([cell[:CELL] for cell in row[:COLUMNS]])
        if len(rows) > ROWS + 1:
            break
    head = rows[0] if rows else []
    return Table(head, rows[1 : ROWS + 1], is_cut or len(rows) > ROWS + 1)


def _notebook(document: dict[str, Any]) -> list[NotebookCell]:
    return [_cell(cell) for cell in document["cells"][:NOTEBOOK_CELLS]]


def _cell(cell: dict[str, Any]) -> NotebookCell:
    source = _joined(cell.get("source", ""))
    if cell.get("cell_type") == "markdown":
        return NotebookCell("prose", html=markdown.render(source))
    if cell.get("cell_type") != "code":
        return NotebookCell("text", text=source)
    outputs = [_output(output) for output in cell.get("outputs", [])]
    images = [address for output in cell.get("outputs", []) for address in _images(output)]
    return NotebookCell("code", text=source, outputs=[text for text in outputs if text], images=images)


def _output(output: dict[str, Any]) -> str:
    """The plain text of an output; its HTML is left out."""
    data = output.get("data", {})
    text = output.get("text") or data.get("text/plain") or "\n".join(output.get("traceback", []))
    return _joined(text)[:OUTPUT]


def _images(output: dict[str, Any]) -> list[str]:
    data = output.get("data", {})
    return [
        f"data:{kind};base64,{''.join(_joined(data[kind]).split())}"
        for kind in ("image/png", "image/jpeg")
        if kind in data
    ]


def _joined(value: Any) -> str:
    return "".join(map(str, value)) if isinstance(value, list) else str(value)
